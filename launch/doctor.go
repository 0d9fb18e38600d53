package launch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"remshell/job"
	"remshell/wire"
)

// A Wanted is what a job would need on every host; empty: not known.
type Wanted struct{ Dir, Program, Path string }

// Examine looks at all candidates as --doctor does (DIAG-5): each one by itself, and each
// from some others. Those that cannot be reached are part of the answer.
func Examine(ctx context.Context, req job.Request, env Env, wanted Wanted) ([]job.Checkup, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	env.pauses = new(pauses)
	watchSignals(env, cancel)
	starting, done := env.pauses.within(ctx, startLimit(req), lateError(req))
	defer done()
	env.Greet = min(env.Greet, lookTime)
	b := newBooking(req, env, newBox())
	defer b.fleet.close()
	b.reach(starting, req.Nodes, len(req.Nodes))
	d := &ward{booking: b, beds: make(map[*node]*job.Checkup)}
	checkups := d.admit()
	err := errors.Join(d.examine(starting, wanted), d.probePeers(starting))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // the user gave up
	}
	if err != nil {
		return nil, err
	}
	d.discharge()
	return checkups, nil
}

// A ward is the hosts that are being examined.
type ward struct {
	*booking
	beds map[*node]*job.Checkup
}

// admit notes how each host was reached, or why it was not.
func (w *ward) admit() []job.Checkup {
	checkups := make([]job.Checkup, len(w.req.Nodes))
	for i, def := range w.req.Nodes {
		c := &checkups[i]
		c.Node, c.Local = def.Name, def.Local
		if err := w.errs[def.Name]; err != nil {
			c.Failure = defect(err)
			continue
		}
		for _, n := range w.fleet.all {
			if n.def.Same(def) {
				w.beds[n] = c
				n.admit(c)
			}
		}
	}
	return checkups
}

// admit notes what is known of a node since it was reached.
func (n *node) admit(c *job.Checkup) {
	c.Probe = n.probe
	if s, ok := n.rw.(interface{ Noise() []byte }); ok {
		c.Noise = string(s.Noise())
	}
	if s, ok := n.rw.(interface{ Login() time.Duration }); ok {
		c.Login = s.Login()
	}
}

// defect is an error of a host for people and programs, without the host's name.
func defect(err error) job.Defect {
	d := job.Defect{Code: "unusable", Text: reasonOf(err)}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		d.Code = coded.Code()
	}
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		d.Remedy = h.Hint()
	}
	return d
}

// examine lets every helper look at its machine, and asks it for its ledger.
func (w *ward) examine(ctx context.Context, wanted Wanted) error {
	f := w.fleet
	f.nodes = f.all // those among which this machine's address is looked for
	local := f.localAddress()
	asked := make(map[*node]time.Time)
	err := w.ask(ctx, lookTime, f.all, func(n *node) wire.Message {
		asked[n] = time.Now()
		m := &wire.Examine{Dir: wanted.Dir, Program: wanted.Program, Path: wanted.Path}
		if n.def.Local {
			m.Address = local
		}
		return m
	}, func(n *node, m wire.Message) bool {
		answer, ok := m.(*wire.Examined)
		if ok {
			c := w.beds[n]
			c.Exam = answer.Exam
			c.Skew, c.Blur = skew(asked[n], time.Now(), answer.Exam.Clock)
		}
		return ok
	})
	if err != nil {
		return err
	}
	return w.ask(ctx, lookTime, f.all, func(*node) wire.Message { return &wire.List{Ledger: w.req.Queue.Ledger} },
		func(n *node, m wire.Message) bool {
			listed, ok := m.(*wire.Listed)
			if ok {
				w.beds[n].Page = job.Page{Node: n.def.Name, Where: listed.Where, Claims: listed.Claims, Err: listed.Err}
			}
			return ok
		})
}

// skew is by how much a clock that was read between two moments is ahead of ours, and how
// wrong that may be. Moments are compared by the clocks of the wall.
func skew(asked, heard, clock time.Time) (ahead, blur time.Duration) {
	asked, heard = asked.Round(0), heard.Round(0)
	blur = heard.Sub(asked) / 2
	return clock.Sub(asked.Add(blur)), blur
}

// An openPort is a port that was opened, and its node.
type openPort struct {
	*node
	wire.ProbePort
}

// probePeers lets all nodes open a port, and each probe those of others. A node without an
// address for its peers has none.
func (w *ward) probePeers(ctx context.Context) error {
	if len(w.fleet.all) < 2 {
		return nil
	}
	token := rand.Text()
	open := make(map[*node]int) // ports
	err := w.ask(ctx, lookTime, w.fleet.all, func(n *node) wire.Message {
		return &wire.Listen{Address: w.beds[n].Exam.Address, Token: token}
	}, func(n *node, m wire.Message) bool {
		listening, ok := m.(*wire.Listening)
		if ok && listening.Port > 0 {
			open[n] = listening.Port
		}
		return ok
	})
	if err != nil {
		return err
	}
	var ports []openPort
	for _, n := range w.fleet.all {
		address := w.beds[n].Exam.Address
		if ip := net.ParseIP(address); open[n] > 0 && ip != nil && !ip.IsLoopback() {
			at := net.JoinHostPort(address, strconv.Itoa(open[n]))
			ports = append(ports, openPort{n, wire.ProbePort{Node: n.def.Name, Address: at, Token: token}})
		}
	}
	return w.probeAll(ctx, ports)
}

// probeAll lets each node probe its partners.
func (w *ward) probeAll(ctx context.Context, ports []openPort) error {
	calls := make(map[*node][]wire.ProbePort)
	var callers []*node
	for i, d := range ports {
		callers = append(callers, d.node)
		for _, k := range partners(i, len(ports)) {
			if !w.sameMachine(d.node, ports[k].node) {
				calls[d.node] = append(calls[d.node], ports[k].ProbePort)
			}
		}
	}
	return w.ask(ctx, probeTime, callers, func(n *node) wire.Message { return &wire.ProbePeers{Ports: calls[n]} },
		func(n *node, m wire.Message) bool {
			probed, ok := m.(*wire.PeersProbed)
			if ok {
				w.beds[n].PeerProbes = probed.Probes
			}
			return ok
		})
}

// sameMachine reports whether two hosts are one node: what it says to itself, no network
// carries.
func (w *ward) sameMachine(a, b *node) bool {
	return a.probe.Identity != "" && a.probe.Identity == b.probe.Identity
}

// probeTime is how long a node may take to probe others, which may not answer it.
const probeTime = 2 * lookTime

// allPairs is up to how many hosts each probes every other.
const allPairs = 32

// partners are those that host i of n probes: all others, or, among many, those at the
// distances 1, 2, 4, ... to both sides, so that all are probed from several sides.
func partners(i, n int) (found []int) {
	if n <= allPairs {
		for k := range n {
			if k != i {
				found = append(found, k)
			}
		}
		return found
	}
	for far := 1; far <= n/2; far *= 2 {
		found = append(found, (i+far)%n)
		if back := (i - far + n) % n; back != (i+far)%n {
			found = append(found, back)
		}
	}
	return found
}

// discharge sends the helpers home, and notes those that were lost meanwhile.
func (w *ward) discharge() {
	for n, c := range w.beds {
		n.send(&wire.Bye{})
		switch {
		case errors.As(n.lost, new(silence)):
			c.Failure = defect(n.lost)
			c.Failure.Remedy = "is it overloaded, or does a file system hang there?"
		case n.lost != nil:
			c.Failure = job.Defect{Code: "lost", Text: fmt.Sprintf("lost contact (%s)", reasonOf(n.lost)),
				Remedy: "does the host end processes of a login? look at its system log"}
		}
	}
}
