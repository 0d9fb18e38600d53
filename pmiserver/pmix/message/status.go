package message

import "strconv"

// A Status says how a request went. The numbers are the same in all clients that we serve.
type Status int32

// What the server answers (pmix-wire.md 6).
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

// ModelDeclared is the event by which a library says which programming model it is of. It is
// for nobody else (pmix-wire.md 6.7).
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
