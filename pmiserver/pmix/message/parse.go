package message

import (
	"errors"
	"fmt"

	"remshell/pmiserver/pmix/bfrops"
)

// A Request is what a client asks: one of the structs of this package, each with the fields of
// its message in their order.
type Request interface {
	read(*bfrops.Reader)
	trace(*traceLine)
}

// A commandEntry is what is known of a command.
type commandEntry struct {
	name string
	make func() Request // nil: it is not served
}

// commands lists what a client may say, by number, in the order of pmix-wire.md 6. What is not
// in it is not served either.
var commands = [...]commandEntry{
	0:  {"REQ", func() Request { return new(Req) }},
	1:  {"ABORT", func() Request { return new(Abort) }},
	2:  {"COMMIT", func() Request { return new(Commit) }},
	3:  {"FENCE", func() Request { return new(Fence) }},
	4:  {"GET", func() Request { return new(Get) }},
	5:  {"FINALIZE", func() Request { return new(Finalize) }},
	6:  {"PUBLISH", func() Request { return new(Publish) }},
	7:  {"LOOKUP", func() Request { return new(Lookup) }},
	8:  {"UNPUBLISH", func() Request { return new(Unpublish) }},
	9:  {"SPAWN", func() Request { return new(Spawn) }},
	10: {"CONNECT", func() Request { return new(Connect) }},
	11: {"DISCONNECT", func() Request { return new(Disconnect) }},
	12: {"NOTIFY", func() Request { return new(Notify) }},
	13: {"REGEVENTS", func() Request { return new(RegEvents) }},
	14: {"DEREGEVENTS", func() Request { return new(DeregEvents) }},
	15: {"QUERY", func() Request { return new(Query) }},
	16: {"LOG", func() Request { return new(Log) }},
	17: {"ALLOC", nil},
	18: {"JOB_CONTROL", func() Request { return new(JobControl) }},
	19: {"MONITOR", nil},
	20: {"GET_CRED", nil},
	21: {"VALIDATE_CRED", nil},
	22: {"IOF_PULL", nil},
	23: {"IOF_PUSH", nil},
	24: {"GROUP_CONSTRUCT", func() Request { return new(GroupConstruct) }},
	25: {"GROUP_JOIN", nil},
	26: {"GROUP_INVITE", nil},
	27: {"GROUP_LEAVE", nil},
	28: {"GROUP_DESTRUCT", func() Request { return new(GroupDestruct) }},
	29: {"IOF_DEREG", nil},
	37: {"RESOLVE_PEERS", nil},
	38: {"RESOLVE_NODE", nil},
}

// deregEventsNumber is the one command without an answer: DEREGEVENTS.
const deregEventsNumber = 14

// A Refusal is the error of Parse for a message of which no request could be made.
type Refusal struct {
	Command string // its name; or what is known of it
	Status  Status // the answer
	NoReply bool   // the command has no answer
	Err     error  // what is wrong with the message
}

func (r *Refusal) Error() string { return r.Command + ": " + r.Err.Error() }
func (r *Refusal) Unwrap() error { return r.Err }

// ErrEmpty is the error of Parse for a message without a command: its client cannot be
// understood any more.
var ErrEmpty = errors.New("empty message")

var errUnknown = errors.New("not served")

// Parse reads the body of a client's message. What follows the last field is ignored, as a
// newer client may add some. The error is ErrEmpty or a *Refusal.
func Parse(body []byte) (Request, error) {
	if len(body) == 0 {
		return nil, ErrEmpty
	}
	r := bfrops.NewReader(body)
	number := r.Byte()
	if err := r.Err(); err != nil {
		return nil, refuse("a message without a command", err)
	}
	if int(number) >= len(commands) || commands[number].make == nil {
		return nil, &Refusal{Command: Name(number), Status: NotSupported, Err: errUnknown}
	}
	c := &commands[number]
	request := c.make()
	request.read(r)
	if err := r.Err(); err != nil {
		refusal := refuse(c.name, err)
		refusal.NoReply = number == deregEventsNumber
		return nil, refusal
	}
	return request, nil
}

// Name returns what a command is called: FENCE, or "command 200".
func Name(command uint8) string {
	if int(command) < len(commands) && commands[command].name != "" {
		return commands[command].name
	}
	return fmt.Sprintf("command %d", command)
}

// refuse turns what is wrong with a message into its answer.
func refuse(command string, err error) *Refusal {
	status := Malformed
	if errors.Is(err, bfrops.ErrBound) {
		status = BadParameter
	}
	return &Refusal{Command: command, Status: status, Err: err}
}
