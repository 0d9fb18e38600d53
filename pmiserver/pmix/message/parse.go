package message

import (
	"errors"
	"fmt"

	"remshell/pmiserver/pmix/bfrops"
)

// A Request is a client's request in decoded form: a pointer to one of the structs of this package. Each struct has the
// fields of the message, in the same order.
type Request interface {
	read(*bfrops.Reader)
	trace(*traceLine)
}

// A commandEntry describes a PMIx command: its name and, if the command is supported, how to make an empty request for
// it.
type commandEntry struct {
	name string
	make func() Request // nil if the command is not supported
}

// commands describes the supported commands. The index is the number of the command (pmix-wire.md 6).
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

// deregEventsNumber is the number of DEREGEVENTS, the only command without a reply.
const deregEventsNumber = 14

// A Refusal is returned by Parse for a message that is not a valid and supported request.
type Refusal struct {
	Command string // name of the command, or a description if it is unknown
	Status  Status // status to reply
	NoReply bool   // the command has no reply
	Err     error  // why the message is refused
}

func (r *Refusal) Error() string { return r.Command + ": " + r.Err.Error() }
func (r *Refusal) Unwrap() error { return r.Err }

// ErrEmpty is returned by Parse for a message without a command. The caller should close the connection.
var ErrEmpty = errors.New("a message is empty")

var errUnknown = errors.New("this command is not supported")

// Parse decodes the body of a client's message. It ignores bytes after the last field, because newer clients
// may have further fields. The error is ErrEmpty or a *Refusal.
func Parse(body []byte) (Request, error) {
	if len(body) == 0 {
		return nil, ErrEmpty
	}
	r := bfrops.NewReader(body)
	number := r.Byte()
	if err := r.Err(); err != nil {
		return nil, refuse("a message has no command", err)
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

// Name returns the name of a command, such as FENCE. For a command without a name, it returns a string such as "command
// 200".
func Name(command uint8) string {
	if int(command) < len(commands) && commands[command].name != "" {
		return commands[command].name
	}
	return fmt.Sprintf("command %d", command)
}

// refuse returns the Refusal for a message that cannot be decoded.
func refuse(command string, err error) *Refusal {
	status := Malformed
	if errors.Is(err, bfrops.ErrBound) {
		status = BadParameter
	}
	return &Refusal{Command: command, Status: status, Err: err}
}
