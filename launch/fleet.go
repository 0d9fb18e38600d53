package launch

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"remshell/job"
	"remshell/launch/stdio"
	"remshell/launch/supervise"
	"remshell/pmiserver/fence"
	"remshell/pmiserver/transcript"
	"remshell/wire"
)

// A said is a message of a node that supervision or a phase before it has to judge.
type said struct {
	from *node
	m    wire.Message
}

// An ended is the end of a node's connection.
type ended struct {
	from *node
	err  error
}

// read sorts what one helper says: output to the printers, the rest into the box. It
// never waits for anybody but the connection.
func (f *fleet) read(n *node) {
	defer func() {
		if why := recover(); why != nil {
			f.cut(n, crashed(f.env, n.name, why))
		}
	}()
	helper := n.send
	for {
		m, err := n.hear()
		switch {
		case violates(err):
			f.cut(n, err)
			return
		case err != nil:
			f.events.put(ended{n, n.explain(err)})
			return
		}
		switch m := m.(type) {
		case nil:
			f.later(n)
		case *wire.Data:
			f.streams.Take(m, helper)
		case *wire.Credit:
			f.streams.Read(m.Rank, m.Bytes)
		case *wire.Ping:
		case *wire.Log:
			f.log(n, m)
		default:
			f.note(n, m)
			f.events.put(said{n, m})
		}
	}
}

// hear is the next message of a node that its gate lets through; nil if it does not.
func (n *node) hear() (wire.Message, error) {
	m, err := n.conn.Recv()
	if err != nil {
		return nil, err
	}
	return n.gate.admit(m)
}

// later hears in a second what a node says too often, if nothing newer has come by then.
func (f *fleet) later(n *node) {
	if !n.gate.postpones() {
		return
	}
	time.AfterFunc(time.Second, func() {
		for _, m := range n.gate.postponed() {
			f.events.put(said{n, m})
		}
	})
}

// log writes a line of a helper's log into ours.
func (f *fleet) log(n *node, m *wire.Log) {
	if missed := n.gate.unseen(); missed > 0 {
		f.env.Log.Warn().Str("node", n.name).Msgf("%d more lines of the helper's log are not shown", missed)
	}
	line := f.env.Log.Info()
	if m.Warning {
		line = f.env.Log.Warn()
	}
	line.Str("node", n.name).Msg(m.Text)
}

// note takes what the streams need to know at once, before the next piece of output.
func (f *fleet) note(n *node, m wire.Message) {
	switch m := m.(type) {
	case *wire.Started:
		if f.env.Watch != nil { // before any output
			f.env.Watch.Started(f.account.start(n, m))
		}
		f.streams.Started(m.Rank, m.PID)
	case *wire.Exited:
		f.streams.Drop(m.Exit.Rank)
	}
}

// A StartError is a program that cannot be started somewhere. Code is the exit code
// it stands for.
type StartError struct {
	Text, Way string
	Code      int
}

func (e *StartError) Error() string { return e.Text }

// Hint is what to do about it.
func (e *StartError) Hint() string { return e.Way }

// base is what every rank of a node gets: later ones win (cli.md section 8).
func base(req job.Request, def job.NodeDef) job.Env {
	env := req.Base
	env.Set = slices.Concat(env.Set, def.Env, req.Given)
	return env
}

// programs are the apps as they start on a node: with what ranks are told, unless its entry
// says otherwise.
func programs(apps []job.App, def job.NodeDef) []job.App {
	apps = slices.Clone(apps)
	for i := range apps {
		told := slices.DeleteFunc(slices.Clone(apps[i].Told), func(assignment string) bool {
			name, _, _ := strings.Cut(assignment, "=")
			return slices.ContainsFunc(def.Env, func(a string) bool { return strings.HasPrefix(a, name+"=") })
		})
		apps[i].Env.Set = slices.Concat(apps[i].Env.Set, told)
	}
	return apps
}

// preparation is what the i-th node of the plan has to know.
func (f *fleet) preparation(req job.Request, i int, local string) *wire.Prepare {
	p, np, n := f.plan, f.plan.Nodes[i], f.nodes[i]
	m := &wire.Prepare{
		Job:   p.Job,
		Group: wire.Group{Name: string(p.Job), Size: p.Size, Nodes: len(p.Nodes)},
		Node: wire.Member{Index: i, Alone: len(f.nodes) == 1, Name: np.Name,
			Iface: cmp.Or(n.def.Iface, req.Iface), Slots: n.size()},
		Apps: programs(req.Apps, n.def), Ranks: np.Ranks,
		Process: wire.Process{Base: base(req, n.def), Compat: req.Compat, Umask: f.env.Umask},
		Streams: wire.Streams{Window: stdio.Window(p.Size), Merge: req.Streams.Merge},
		PMI:     wire.PMISetup{Mapping: p.Mapping, Universe: f.usize, Port: req.Port, Trace: f.env.Trace != nil},
		Supervision: wire.Supervision{Report: f.env.Report, Peaks: req.Ends.Peaks, Leader: req.Signals.Leader,
			Children: req.Ends.Children, Grace: req.Limits.Grace, Silence: f.silence(n)},
		Claim: wire.Claim{Entry: claim(req, p, n), Ledger: req.Queue.Ledger, Noted: req.Queue.Noted, Most: -1, Shares: f.shares(req)},
	}
	if !n.def.Local { // here ranks inherit ours
		m.Process.Soft = req.Soft
	}
	if n.def.MaxProcs != nil {
		m.Claim.Most = *n.def.MaxProcs
	}
	for _, r := range np.Ranks {
		if f.env.In != nil && readsInput(req, r.Rank) {
			m.Streams.Stdin = append(m.Streams.Stdin, r.Rank)
		}
		if req.Streams.PTY.Has(r.Rank) {
			m.Streams.PTY = append(m.Streams.PTY, r.Rank)
		}
	}
	f.graft.onto(m)
	if n.def.Local && !m.Node.Alone {
		m.Node.Address = local
	}
	if f.env.Size != nil {
		m.Streams.Rows, m.Streams.Cols = f.env.Size()
	}
	return m
}

// shares reports whether CPUs that another job has claimed since the survey are no obstacle:
// on this machine alone, where ranks share CPUs anyway, or others were faster each time.
func (f *fleet) shares(req job.Request) bool {
	return req.Home && !req.Forbid && !req.Wait && (f.plan.Overbooked || f.outrun)
}

// resize tells all nodes, until ctx ends, how large our terminal has become.
func (f *fleet) resize(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.env.Resized:
			rows, cols := f.env.Size()
			f.tell(&wire.Resize{Rows: rows, Cols: cols})
		}
	}
}

// claim is what the ledger of a node will say of the job; the helper adds the ranks.
func claim(req job.Request, p job.Plan, n *node) job.Claim {
	c := job.Claim{
		Job: p.Job, UID: req.User.UID, User: req.User.Name, From: req.Queue.From, Node: n.def.Name,
		Nodes: len(p.Nodes), Size: p.Size, Exclusive: p.Exclusive, Since: time.Now(), Command: command(req),
	}
	if n.def.Local {
		c.Inside = req.Queue.Inside
	}
	return c
}

// maxCommand bounds what a ledger says of a command, in bytes.
const maxCommand = 200

// command is the command line of a job's programs, for listings.
func command(req job.Request) string {
	var parts []string
	for _, app := range req.Apps {
		parts = append(parts, strings.Join(app.Argv, " "))
	}
	text := strings.Join(parts, " : ")
	if len(text) > maxCommand {
		text = strings.ToValidUTF8(text[:maxCommand], "") + "..."
	}
	return text
}

// silence is how long the link to a node may be dead before its helper ends the job
// there: as long as the link's own keep-alives allow, if it knows. On this machine
// there is no link, and what the helper would look at is that of the user's login.
func (f *fleet) silence(n *node) time.Duration {
	if n.def.Local {
		return 0
	}
	if c, ok := n.rw.(interface{ Silence() time.Duration }); ok && c.Silence() > 0 {
		return c.Silence()
	}
	return f.env.Silence
}

// localAddress is the address under which other nodes reach this machine: the one
// our connections to them come from. If this machine plays all nodes, that is loopback.
func (f *fleet) localAddress() string {
	for _, n := range slices.Concat(f.nodes, f.graft.host()) {
		if c, ok := n.rw.(interface{ LocalAddr() net.Addr }); ok && !n.def.Local {
			if tcp, ok := c.LocalAddr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
				return tcp.IP.String()
			}
		}
	}
	if !slices.ContainsFunc(f.all, func(n *node) bool { return !n.def.Local }) {
		return "127.0.0.1"
	}
	return ""
}

// readsInput reports whether a rank gets our standard input.
func readsInput(req job.Request, rank int) bool {
	if req.Streams.Stdin == nil {
		return rank == 0
	}
	return req.Streams.Stdin.Has(rank)
}

// arrange opens the files for the output of the plan's ranks.
func (f *fleet) arrange(req job.Request) error {
	told := stdio.Told{StdoutGone: func(err error) { f.events.put(stdoutGone(err)) }, FileFailed: func(err error) { f.events.put(supervise.OutputFailed{What: "output", Why: err.Error()}) }}
	if f.env.Watch != nil {
		told.Output = f.env.Watch.Output
	}
	return f.streams.Open(req.Streams, stdio.Everybody(f.plan, 0, 0, time.Now()), told)
}

// stdoutGone is the news that our standard output takes no more.
func stdoutGone(err error) supervise.Event {
	if errors.Is(err, syscall.EPIPE) {
		return supervise.StdoutGone{}
	}
	return supervise.OutputFailed{What: "standard output", Why: err.Error()}
}

// readers are the ranks that get our standard input.
func (f *fleet) readers(req job.Request) (all []stdio.Reader) {
	for i, np := range f.plan.Nodes {
		for _, r := range np.Ranks {
			if readsInput(req, r.Rank) {
				all = append(all, stdio.Reader{Rank: r.Rank, To: f.nodes[i].send})
			}
		}
	}
	return all
}

// start lets the prepared ranks go.
func (f *fleet) start(req job.Request) {
	f.account.begin(f.plan.Size)
	f.req, f.hub = req, fence.NewHub()
	if f.env.Trace != nil {
		f.trace = new(transcript.Recorder)
	}
	f.streams.LetRead(f.readers(req))
	for i, n := range f.nodes {
		n.index = i
	}
	f.let(f.found(string(f.plan.Job), f.plan, req.Apps, f.nodes), f.meet)
	f.streams.Feed(func(err error) { f.events.put(supervise.StdinFailed{Why: err.Error()}) })
}
