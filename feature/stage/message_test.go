package stage

import (
	"testing"

	"remshell/job"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// The frames of the messages do not change.
func TestFrames(t *testing.T) {
	const text = "é\n\x00a"
	for want, m := range map[string]wire.Message{
		"4614020ac3a90a006104622f0204020ac3a90a006100": &StageFiles{Files: []job.StagedFile{{Name: text, Path: "b/", Size: 1, Mode: 2}}, Sums: []string{text}},
		"470504c401960f":       &MissingFiles{Files: []int{98, 971}},
		"480402020233":         &FileChunk{File: 1, Size: 1, Bytes: []byte("3")},
		"490102":               &FileCredit{Bytes: 1},
		"4a08020ac3a90a006100": &StageResult{Code: 1, Reason: text},
	} {
		wiretest.CheckBytes(t, m, want)
	}
}
