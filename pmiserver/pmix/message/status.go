package message

import "strconv"

// A Status is the result of a request. All supported versions of the client library use the same numbers for it.
type Status int32

// These are the statuses that the server sends in replies (pmix-wire.md 6).
const (
	Success           Status = 0
	Failed            Status = -1
	InvalidCredential Status = -12
	TimedOut          Status = -24
	BadParameter      Status = -27
	NoMemory          Status = -32
	NotFound          Status = -46
	NotSupported      Status = -47
	Malformed         Status = -50
	Duplicate         Status = -53
)

// ModelDeclared is the event that a library sends to declare its programming model. It is not delivered to other
// processes (pmix-wire.md 6.7).
const ModelDeclared Status = -147

var statusNames = map[Status]string{
	Success:           "ok",
	Failed:            "error",
	InvalidCredential: "invalid credential",
	TimedOut:          "timeout",
	BadParameter:      "bad parameter",
	NoMemory:          "too much",
	NotFound:          "not found",
	NotSupported:      "not supported",
	Malformed:         "malformed",
	Duplicate:         "duplicate key",
}

func (s Status) String() string {
	if name := statusNames[s]; name != "" {
		return name
	}
	return "status " + strconv.Itoa(int(s))
}
