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
}

// A Reply is how a request is answered.
type Reply int

// The kinds of answers (pmix-wire.md 6).
const (
	Now   Reply = iota // at once
	Late               // when others have done their part
	Never              // DEREGEVENTS
)

// A commandEntry is what is known of a command; one that is not served makes no request.
type commandEntry struct {
	name  string
	reply Reply
	make  func() Request
}

// commands lists what a client may say, by number, in the order of pmix-wire.md 6. What is not
// in it is not served either.
var commands = [...]commandEntry{
	0:  {"REQ", Now, func() Request { return new(Req) }},
	1:  {"ABORT", Now, func() Request { return new(Abort) }},
	2:  {"COMMIT", Now, func() Request { return new(Commit) }},
	3:  {"FENCE", Late, func() Request { return new(Fence) }},
	4:  {"GET", Late, func() Request { return new(Get) }},
	5:  {"FINALIZE", Now, func() Request { return new(Finalize) }},
	6:  {"PUBLISH", Late, func() Request { return new(Publish) }},
	7:  {"LOOKUP", Late, func() Request { return new(Lookup) }},
	8:  {"UNPUBLISH", Late, func() Request { return new(Unpublish) }},
	9:  {"SPAWN", Late, func() Request { return new(Spawn) }},
	10: {"CONNECT", Late, func() Request { return new(Connect) }},
	11: {"DISCONNECT", Late, func() Request { return new(Disconnect) }},
	12: {"NOTIFY", Now, func() Request { return new(Notify) }},
	13: {"REGEVENTS", Now, func() Request { return new(RegEvents) }},
	14: {"DEREGEVENTS", Never, func() Request { return new(DeregEvents) }},
	15: {"QUERY", Now, func() Request { return new(Query) }},
	16: {"LOG", Now, func() Request { return new(Log) }},
	17: {name: "ALLOC"},
	18: {"JOB_CONTROL", Now, func() Request { return new(JobControl) }},
	19: {name: "MONITOR"},
	20: {name: "GET_CRED"},
	21: {name: "VALIDATE_CRED"},
	22: {name: "IOF_PULL"},
	23: {name: "IOF_PUSH"},
	24: {"GROUP_CONSTRUCT", Late, func() Request { return new(GroupConstruct) }},
	25: {name: "GROUP_JOIN"},
	26: {name: "GROUP_INVITE"},
	27: {name: "GROUP_LEAVE"},
	28: {"GROUP_DESTRUCT", Late, func() Request { return new(GroupDestruct) }},
	29: {name: "IOF_DEREG"},
}

// A Refusal is the error of Parse for a message of which no request could be made.
type Refusal struct {
	Command string // its name; or what is known of it
	Status  Status // the answer
	Mute    bool   // the command has no answer
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
		refusal.Mute = c.reply == Never
		return nil, refusal
	}
	return request, nil
}

// Name returns what a command is called: FENCE, or "command 200".
func Name(command uint8) string {
	if int(command) < len(commands) {
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
