package spawn

import (
	"math"

	"remshell/launch/node"
	"remshell/pmiserver/spawn"
	"remshell/wire"
)

// These are the limits of a spawn request. maxBody limits the total size of all texts in a request.
const (
	maxBody  = 256 << 10
	maxPairs = 1 << 12 // in one list
	maxArgs  = 1 << 16 // of a command
	maxRanks = 1 << 24 // of a command
)

// Spawn is a rank's request to start more ranks. The helper chooses ID, and the reply repeats it. If the helper failed
// to read a file named in the request, Fault says why.
type Spawn struct {
	wire.AnsweredBy[*Spawned]

	ID      int
	Request spawn.Request
	Fault   string
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Spawn) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Word(&m.Request.Group, "group")
	c.Num(&m.Request.Rank, wire.RankRange)
	c.Bool(&m.Request.PMIx)
	wire.List(c, &m.Request.Commands, wire.Length{Name: "commands", Max: maxPairs}, command)
	wire.List(c, &m.Request.Preputs, wire.Length{Name: "preputs", Max: maxPairs}, pair)
	c.Sentence(&m.Fault, "fault")
}

var textLength = wire.Length{Name: "text", Max: maxBody}

func command(c *wire.Codec, p *spawn.Command) {
	c.Texts(&p.Argv, wire.Length{Name: "texts", Max: maxArgs}, textLength)
	c.Num(&p.Count, wire.Range{Name: "count", Low: 1, High: maxRanks})
	wire.List(c, &p.Info, wire.Length{Name: "keys", Max: maxPairs}, pair)
	c.Texts(&p.Env, wire.Length{Name: "variables", Max: maxPairs}, textLength)
	c.Require(len(p.Argv) > 0, "a command without a program")
}

func pair(c *wire.Codec, p *spawn.Pair) {
	c.Text(&p.Key, textLength)
	c.Text(&p.Value, textLength)
}

// Spawned is the reply to Spawn, sent when all new ranks are running or could not be started. In the second case, Err
// says why. Full means that too few slots are free. Codes contains the error codes that spawn.Spawner returns.
type Spawned struct {
	ID    int
	Group string
	Codes []int
	Err   string
	Full  bool
}

// Fields implements wire.Message: it lists the fields that are sent.
func (m *Spawned) Fields(c *wire.Codec) {
	c.Num(&m.ID, wire.RequestIDRange)
	c.Word(&m.Group, "group")
	c.Nums(&m.Codes, wire.Length{Name: "codes", Max: 1 << 24}, wire.Range{Name: "code", Low: math.MinInt32, High: math.MaxInt32})
	c.Sentence(&m.Err, "error")
	c.Bool(&m.Full)
}

func init() {
	wire.Register[Spawn](38, wire.Row{Sender: wire.Helper, Phase: wire.Running, MaxBody: maxBody, Example: func(rank int) wire.Message {
		info := []spawn.Pair{{Key: "k", Value: "v"}}
		return &Spawn{ID: 1, Request: spawn.Request{Group: "g", Rank: rank, Preputs: info,
			Commands: []spawn.Command{{Argv: []string{"a"}, Count: 1, Info: info, Env: []string{"e"}}}}, Fault: "f"}
	}})
	wire.Register[Spawned](39, wire.Row{Sender: wire.Launcher, Phase: wire.Running, MaxBody: 16 << 20, Example: func(int) wire.Message {
		return &Spawned{ID: 1, Group: "g", Codes: []int{1}, Err: "e"}
	}})
	node.Admit(checkSpawn)
	node.OnSend(func(v *node.Validator, _ *Spawned) { v.CountRankReply() })
}

// checkSpawn checks a rank's request to spawn others. The returned message is nil if mpiexec must ignore the request,
// for example because the rank has exited meanwhile.
func checkSpawn(v *node.Validator, m *Spawn) (wire.Message, error) {
	g := v.FindGroup(m.Request.Group)
	if g == nil || !v.HasRank(g, m.Request.Rank) {
		return nil, node.NotOurRank(m.Request.Rank)
	}
	rank := v.FindRank(g.First() + m.Request.Rank)
	if err := rank.CheckStarted(m); err != nil {
		return nil, err
	}
	admitted, err := v.CheckRankRequest(m, m.ID)
	if admitted != nil && rank.HasExited() {
		v.CountRankReply()
		return nil, nil
	}
	return admitted, err
}
