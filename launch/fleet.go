package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"remshell/job"
	"remshell/pmiserver"
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
	for {
		m, err := n.conn.Recv()
		if err != nil {
			f.events.put(ended{n, n.explain(err)})
			return
		}
		switch m := m.(type) {
		case *wire.Data:
			f.data(n, m)
		case *wire.Credit:
			f.feed.grant(m.Bytes)
		case *wire.Ping:
		case *wire.Log:
			f.env.Log.Warn().Str("node", n.def.Name).RawJSON("helper", m.Line).Send()
		default:
			f.events.put(said{n, m})
		}
	}
}

func (f *fleet) data(n *node, m *wire.Data) {
	x := piece{from: n, rank: m.Rank, data: m.Bytes}
	switch m.Stream {
	case wire.Stdout:
		f.env.Out.put(x)
	case wire.Stderr:
		f.env.Err.put(x)
	case wire.Stdin:
		f.feed.close()
	}
}

// prepare hands every node its part and waits until all are ready: all, or none.
func (f *fleet) prepare(ctx context.Context, req job.Request, p job.Plan) error {
	f.hub = newHub(p.Job, f.nodes)
	if f.env.Report {
		f.bound = newBindings(f.env.Err, p.Size)
	}
	f.env.Out.onGone(func(err error) { f.events.put(StdoutGone{err}) })
	f.feed = newFeeder(0, f.nodeOf(0), f.env.In)
	for _, n := range f.nodes {
		go f.read(n)
	}
	local := f.localAddress()
	for i, n := range f.nodes {
		n.conn.Send(f.preparation(req, p, i, local))
	}
	var refused []job.Failure
	for waiting := len(f.nodes); waiting > 0; {
		events := f.events.take(ctx, time.Time{})
		if len(events) == 0 {
			return context.Cause(ctx)
		}
		for _, event := range events {
			answered, err := f.ready(event)
			if answered {
				waiting--
			}
			if err != nil {
				refused = append(refused, *err)
			}
		}
	}
	return refusal(refused)
}

// ready judges what a node says to Prepare: whether that was its answer, and why it
// refuses.
func (f *fleet) ready(event any) (answered bool, refused *job.Failure) {
	fail := func(n *node, code int, hint, format string, args ...any) (bool, *job.Failure) {
		return true, &job.Failure{Node: n.def.Name, Err: &StartError{fmt.Sprintf(format, args...), hint, code}}
	}
	switch e := event.(type) {
	case ended:
		return fail(e.from, ExitInternal, "", "lost contact before the start (%s)", reasonOf(e.err))
	case said:
		switch m := e.m.(type) {
		case *wire.Prepared:
			return true, nil
		case *wire.Refused:
			return fail(e.from, m.Code, m.Hint, "%s", m.Reason)
		}
		return fail(e.from, ExitInternal, "", "helper: unexpected %T", e.m)
	}
	return false, nil
}

// refusal makes one error of all refusals: equal reasons once, with their nodes. The
// code is that of the first node in their order.
func refusal(refused []job.Failure) error {
	if len(refused) == 0 {
		return nil
	}
	slices.SortFunc(refused, func(a, b job.Failure) int { return cmp.Compare(a.Node, b.Node) })
	return &HostsError{Failed: refused}
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

// preparation is what node i of the plan has to know.
func (f *fleet) preparation(req job.Request, p job.Plan, i int, local string) *wire.Prepare {
	np := p.Nodes[i]
	m := &wire.Prepare{
		Job: p.Job, Size: p.Size, Nodes: len(p.Nodes), Index: i, Name: np.Name, Mapping: p.Mapping,
		Base: req.Base, Apps: req.Apps, Ranks: np.Ranks,
		Grace: req.Limits.Grace, Silence: f.silence(f.nodes[i]), Umask: f.env.Umask,
		Slots: f.nodes[i].size(), Report: f.bound != nil,
	}
	if f.env.In != nil && np.Ranks[0].Rank == 0 {
		m.Stdin = []int{0}
	}
	if f.nodes[i].def.Local && len(f.nodes) > 1 {
		m.Address = local
	}
	return m
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
// our connections to them come from.
func (f *fleet) localAddress() string {
	for _, n := range f.nodes {
		if c, ok := n.rw.(interface{ LocalAddr() net.Addr }); ok && !n.def.Local {
			if tcp, ok := c.LocalAddr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
				return tcp.IP.String()
			}
		}
	}
	return ""
}

func (f *fleet) nodeOf(rank int) *node {
	for i, np := range f.plan.Nodes {
		if slices.ContainsFunc(np.Ranks, func(r job.RankPlan) bool { return r.Rank == rank }) {
			return f.nodes[i]
		}
	}
	return nil
}

// start lets the prepared ranks go.
func (f *fleet) start(req job.Request) {
	for _, n := range f.nodes {
		n.conn.Send(&wire.Start{})
	}
	if f.env.In != nil {
		go f.feed.run()
	}
}

// A hub joins the fences of all nodes.
type hub struct {
	*pmiserver.Hub
	job   job.ID // the name of the only group there is
	nodes []*node
}

func newHub(id job.ID, nodes []*node) *hub {
	h := &hub{pmiserver.NewHub(), id, nodes}
	var all []int
	for i := range nodes {
		all = append(all, i)
	}
	h.Add(string(id), all)
	return h
}

// join takes what one node brings to a fence; the last one releases all. A
// suspicion means that the fence can never be complete.
func (h *hub) join(n *node, m *wire.Fence) (Suspicion, bool) {
	done, err := h.Join(n.index, m.ID, m.Blob)
	if err != nil {
		return Suspicion{-1, err.Error()}, true
	}
	if done != nil {
		frame := wire.Encode(&wire.Fenced{ID: m.ID, Blobs: done.Blobs})
		for _, i := range done.Nodes {
			h.nodes[i].conn.SendFrame(frame)
		}
	}
	return Suspicion{}, false
}

// left takes the news that a rank is over.
func (h *hub) left(n *node, rank int) (Suspicion, bool) {
	var stuck *pmiserver.StuckError
	if err := h.Leave(string(h.job), n.index, rank); errors.As(err, &stuck) {
		return Suspicion{-1, err.Error()}, true
	}
	return Suspicion{}, false
}
