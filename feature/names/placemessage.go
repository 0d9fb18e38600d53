package names

import (
	"strconv"
	"time"

	"remshell/job"
	"remshell/wire"
)

// LedgerName asks the helper that keeps the job's names to carry out an operation on the ledger (directory of
// published names) of its host. Op is Publish, Lookup or Unpublish. mpiexec chooses ID, and the reply repeats it.
type LedgerName struct {
	wire.AnsweredBy[*LedgerNameReply]

	ID            int
	Ledger        string        // directory of the ledger; empty: the default
	Job           job.ID        // the job that publishes
	Silence       time.Duration // how long the link to mpiexec may be dead
	AnyUser       bool          // names of other users count, too, and others may find what the job publishes
	Op            Operation
	Service, Port string
	Value         []byte
	FirstReadOnly bool
}

// ReplyID returns the text that identifies the request among those that have no reply yet.
func (m *LedgerName) ReplyID() string { return strconv.Itoa(m.ID) }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *LedgerName) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Text(&m.Ledger, pathLength)
	c.Text((*string)(&m.Job), jobLength)
	c.Duration(&m.Silence, "silence")
	c.Bool(&m.AnyUser)
	c.Num((*int)(&m.Op), wire.Range{Name: "operation", Low: int64(Publish), High: int64(Unpublish)})
	c.Text(&m.Service, nameLength)
	c.Text(&m.Port, nameLength)
	c.Bytes(&m.Value, valueLength)
	c.Bool(&m.FirstReadOnly)
}

// LedgerNameReply is the reply to LedgerName. Its fields have the same meaning as those of NameReply. If a
// lookup has found a name of another user, User is that user's name on the host.
type LedgerNameReply struct {
	ID            int
	OK            bool
	Port, Err     string
	Value         []byte
	FirstReadOnly bool
	User          string
}

// ReplyID returns the ID of the request.
func (m *LedgerNameReply) ReplyID() string { return strconv.Itoa(m.ID) }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *LedgerNameReply) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Bool(&m.OK)
	c.Text(&m.Port, nameLength)
	c.Sentence(&m.Err, "error")
	c.Bytes(&m.Value, valueLength)
	c.Bool(&m.FirstReadOnly)
	c.Sentence(&m.User, "user")
}

// AwaitNames asks the helper that keeps the job's names to report when names have been published. Seen is the number
// of the last report that mpiexec has received, or 0. If names may have been published since that report, the helper
// replies at once.
type AwaitNames struct {
	wire.AnsweredBy[*NamesChanged]

	Ledger  string
	AnyUser bool
	Seen    int
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *AwaitNames) Fields(c *wire.Codec) {
	c.Text(&m.Ledger, pathLength)
	c.Bool(&m.AnyUser)
	c.Num(&m.Seen, wire.RequestIDRange)
}

// NamesChanged is the reply to AwaitNames. Number is the number of the report, which is higher than AwaitNames.Seen.
type NamesChanged struct{ Number int }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *NamesChanged) Fields(c *wire.Codec) { c.Num(&m.Number, wire.RequestIDRange) }

var (
	pathLength = wire.Length{Name: "path", Max: 4 << 10}
	jobLength  = wire.Length{Name: "job", Max: 40}
)

func init() {
	wire.Register[LedgerName](120, wire.Row{Sender: wire.Launcher, Phase: wire.Listing, MaxBody: 256 << 10, Example: func(int) wire.Message {
		return &LedgerName{ID: 1, Ledger: "/var/tmp", Job: "j", Silence: time.Second, Op: Publish, Service: "s", Port: "p", Value: []byte("v")}
	}})
	wire.Register[LedgerNameReply](121, wire.Row{Sender: wire.Helper, Phase: wire.Listing, MaxBody: 256 << 10, Example: func(int) wire.Message {
		return &LedgerNameReply{ID: 1, OK: true, Port: "p", Err: "e", Value: []byte("v"), User: "u"}
	}})
	wire.Register[AwaitNames](122, wire.Row{Sender: wire.Launcher, Phase: wire.Listing, MaxBody: 8 << 10, Example: func(int) wire.Message {
		return &AwaitNames{Ledger: "/var/tmp", Seen: 1}
	}})
	wire.Register[NamesChanged](123, wire.Row{Sender: wire.Helper, Phase: wire.Listing, MaxBody: 64, Example: func(int) wire.Message {
		return &NamesChanged{Number: 1}
	}})
}
