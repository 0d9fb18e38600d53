package wire

// Limits that the tests of package wire_test use.
const (
	MaxCores        = maxCores
	MaxCPUs         = maxCPUs
	MaxGPUs         = maxGPUs
	MaxLoad         = maxLoad
	MaxTime         = maxTime
	MaxClaimedRanks = maxClaimedRanks
	MaxEntries      = maxEntries
	MaxSentence     = maxSentence
	MaxWord         = maxWord
)
