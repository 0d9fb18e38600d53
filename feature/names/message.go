/*
Package names is the feature of mpiexec that keeps the names that ranks publish and look up for MPI_Comm_connect.
Ranks publish them with PMI (MPI_Publish_name) or PMIx (PMIx_Publish). mpiexec has one table for all groups of the
job (rule PMIX-39). With --names user or all, other jobs can find the names. Then a helper on one host keeps them
in the host's ledger, a directory that the jobs on the host share (place.go).

	rank --> its PMI server --NameRequest--> mpiexec: publish, look up, remove
	                        <--NameReply----
	                        <--NamePublished-- a rank of the node waits for this name, which is now published; the
	                                           helper looks it up again (PMIX-40)

NameRequest shares its IDs, and the limit of unanswered requests, with other requests of ranks (rule TRUST-4).
*/
package names

import (
	"remshell/launch/node"
	"remshell/wire"
)

// An Operation is an operation on the table of published names.
type Operation int

// These are the operations on the table of published names.
const (
	Publish Operation = iota + 1
	Lookup
	Unpublish
	LookupWait // as Lookup; if the name is not published, NamePublished follows when it is
)

// These are the maximum lengths, in bytes, of names and ports (nameLength) and of values (valueLength).
var (
	nameLength  = wire.Length{Name: "name", Max: 4 << 10}
	valueLength = wire.Length{Name: "value", Max: 64 << 10}
)

// NameRequest is a rank's request to publish, look up or remove a name in the job's table. The helper chooses ID, and
// the reply repeats it. A rank that uses PMI publishes Port. A rank that uses PMIx publishes Value, which also says
// who the publisher is. If FirstReadOnly is set, the first lookup removes the name.
type NameRequest struct {
	wire.AnsweredBy[*NameReply]

	ID            int
	Op            Operation
	Service, Port string
	Value         []byte
	FirstReadOnly bool
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *NameRequest) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Num((*int)(&m.Op), wire.Range{Name: "operation", Low: int64(Publish), High: int64(LookupWait)})
	c.Text(&m.Service, nameLength)
	c.Text(&m.Port, nameLength)
	c.Bytes(&m.Value, valueLength)
	c.Bool(&m.FirstReadOnly)
}

// NameReply is the reply to NameRequest. OK says whether the name was published, found or removed. If
// FirstReadOnly is set, the lookup has removed the name from the table, and a helper that cannot deliver the
// value publishes the name again.
type NameReply struct {
	ID            int
	OK            bool
	Port, Err     string
	Value         []byte
	FirstReadOnly bool
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *NameReply) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Bool(&m.OK)
	c.Text(&m.Port, nameLength)
	c.Sentence(&m.Err, "error")
	c.Bytes(&m.Value, valueLength)
	c.Bool(&m.FirstReadOnly)
}

// NamePublished reports that a name is now published. A rank of the node has looked up the name with LookupWait. When
// it looks the name up again, another rank may already have removed it.
type NamePublished struct{ Service string }

// Fields implements wire.Message: it lists the fields that are sent.
func (m *NamePublished) Fields(c *wire.Codec) { c.Text(&m.Service, nameLength) }

func init() {
	wire.Register[NameRequest](36, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: 256 << 10, Example: func(int) wire.Message {
		return &NameRequest{ID: 1, Op: Lookup, Service: "s", Port: "p", Value: []byte("v")}
	}})
	wire.Register[NameReply](37, wire.Row{Sender: wire.Launcher, Phase: wire.Running, MaxBody: 128 << 10, Example: func(int) wire.Message {
		return &NameReply{ID: 1, OK: true, Port: "p", Err: "e", Value: []byte("v")}
	}})
	wire.Register[NamePublished](45, wire.Row{Sender: wire.Launcher, Phase: wire.Running, MaxBody: 8 << 10, Example: func(int) wire.Message {
		return &NamePublished{Service: "a"}
	}})
	node.Admit(func(v *node.Validator, m *NameRequest) (wire.Message, error) { return v.CheckRankRequest(m, m.ID) })
	node.OnSend(func(v *node.Validator, _ *NameReply) { v.CountRankReply() })
}
