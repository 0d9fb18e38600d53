package reserve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/node"
	"remshell/plan"
	"remshell/wire"
)

// Examine looks at all hosts of a request as --doctor does (DIAG-5): each one by itself, and each
// from some others. Those that cannot be reached are part of the answer. If the request has a program,
// refused is why a start would refuse the job now; it is nil if a host that is needed cannot be used.
func Examine(ctx context.Context, req job.Request, env Env) (checkups []job.Checkup, refused, err error) {
	ctx, r, done := newVisit(ctx, req, env)
	defer done()
	listed := req.Listed()
	needed := func(job.NodeDef) bool { return false }
	var keepers []job.NodeDef
	program := hasProgram(req, 0)
	if program {
		needed = plan.Worthy(req)
		keepers = req.Queue.Keepers()
	}
	nodes := slices.DeleteFunc(slices.Clone(req.Nodes), func(def job.NodeDef) bool { return !listed[def.Name] && !needed(def) })
	keepers = slices.DeleteFunc(keepers, func(def job.NodeDef) bool { return slices.ContainsFunc(nodes, def.Same) })
	r.connectAll(ctx, nodes, keepers)
	c := &checkup{reservation: r, byHost: make(map[*host]*job.Checkup)}
	checkups = c.begin(listed)
	err = errors.Join(c.examine(ctx), c.probePeers(ctx))
	if err == nil && program {
		refused = c.refusal(ctx)
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx) // the user gave up
	}
	if err != nil {
		return nil, nil, err
	}
	c.end()
	return checkups, refused, nil
}

// refusal makes the plan that a start would make now, and returns why there is none.
func (c *checkup) refusal(ctx context.Context) error {
	if len(c.failures()) > 0 && !c.req.Skip || len(c.reached()) == 0 {
		return nil // the hosts' own failures say it
	}
	if err := c.queue.Choose(); err != nil {
		return err
	}
	err := c.survey(ctx)
	if errors.As(err, new(*HostsError)) {
		return nil
	}
	if err == nil {
		c.snap.Ahead, err = c.queue.Count(ctx, lookTime)
	}
	if err == nil {
		_, err = makePlan(ctx, c.req, c.snap)
	}
	return err
}

// A checkup is that of all hosts.
type checkup struct {
	*reservation
	examined []*host // without those that only the plan needs
	byHost   map[*host]*job.Checkup
}

// begin notes how each listed host was reached, or why it was not.
func (c *checkup) begin(listed map[string]bool) []job.Checkup {
	checkups := make([]job.Checkup, 0, len(c.req.Nodes)) // it does not grow: byHost points into it
	for _, def := range c.req.Nodes {
		if !listed[def.Name] {
			continue
		}
		checkups = append(checkups, job.Checkup{})
		one := &checkups[len(checkups)-1]
		one.Node, one.Local, one.Said = def.Name, def.Local, def.Policy
		if err := c.errs[def.Name]; err != nil {
			one.Failure, one.Detail = defect(err), fault.Detail(err)
			continue
		}
		if n := c.byName[def.Name]; n != nil {
			c.byHost[n], c.examined = one, append(c.examined, n)
			one.Probe, one.Noise, one.Login, one.Shell = n.probe, string(n.Noise()), n.Login(), n.Shell()
		}
	}
	return checkups
}

// defect is an error of a host for people and programs, without the host's name.
func defect(err error) job.Defect {
	d := job.Defect{Code: "unusable", Text: fault.Reason(err), Remedy: fault.Hint(err)}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		d.Code = coded.Code()
	}
	return d
}

// examine lets every helper look at its machine, and asks it for its ledger.
func (c *checkup) examine(ctx context.Context) error {
	local := c.localAddress(c.examined)
	asked := make(map[*host]time.Time)
	err := c.ask(ctx, lookTime, c.examined, func(n *host) wire.Message {
		asked[n] = time.Now()
		m := lookFor(c.req, 0, n.def)
		m.Ledger = c.req.Queue.Ledger
		if n.def.Local {
			m.Address = local
		}
		return m
	}, func(n *host, m wire.Message) bool {
		answer, ok := m.(*wire.Examined)
		if ok {
			one := c.byHost[n]
			one.Exam = answer.Exam
			one.Skew, one.Blur = skew(asked[n], time.Now(), answer.Exam.Clock)
		}
		return ok
	})
	if err != nil {
		return err
	}
	return c.ask(ctx, lookTime, c.examined, func(*host) wire.Message {
		return &wire.List{Ledger: c.req.Queue.Ledger, Most: listRoom(len(c.examined))}
	},
		func(n *host, m wire.Message) bool {
			listed, ok := m.(*wire.Listed)
			if ok {
				c.byHost[n].Page = job.Page{Node: n.def.Name, Where: listed.Where, Claims: listed.Claims, Err: listed.Err, Notice: listed.Notice}
			}
			return ok
		})
}

// hasProgram reports whether a request says which program the ranks of an app are.
func hasProgram(req job.Request, app int) bool {
	return app < len(req.Apps) && len(req.Apps[app].Argv) > 0 && req.Apps[app].Argv[0] != ""
}

// lookFor asks whether a host has the working directory and the program of an app. A program that comes along (--stage) is not
// looked for.
func lookFor(req job.Request, app int, def job.NodeDef) *wire.Examine {
	m := new(wire.Examine)
	if app >= len(req.Apps) || len(req.Apps[app].Argv) == 0 {
		return m
	}
	of := programs(req.Apps, make([]int, len(req.Apps)), def)[app]
	environ := slices.Concat(base(req, def, nil).Set, of.Env.Set)
	m.Dir, m.Path, m.Libraries = of.Dir, job.Value(environ, "PATH"), job.Value(environ, "LD_LIBRARY_PATH")
	if len(of.Path)+len(of.Behind) > 0 {
		m.Path = strings.Join(slices.Concat(of.Path, []string{cmp.Or(m.Path, job.DefaultPath)}, of.Behind), ":")
	}
	if of.Staged == "" {
		m.Program = of.Argv[0]
	}
	return m
}

// skew is by how much a clock that was read between two moments is ahead of ours, and how
// wrong that may be. Moments are compared by the clocks of the wall.
func skew(asked, heard, clock time.Time) (ahead, blur time.Duration) {
	asked, heard = asked.Round(0), heard.Round(0)
	blur = heard.Sub(asked) / 2
	return clock.Sub(asked.Add(blur)), blur
}

// A peerPort is a port that was opened on a node for its peers to probe.
type peerPort struct {
	*host
	wire.ProbePort
}

// probePeers lets all nodes open a port, and each probe those of others. A node without an
// address for its peers has none.
func (c *checkup) probePeers(ctx context.Context) error {
	if len(c.examined) < 2 {
		return nil
	}
	token := rand.Text()
	open := make(map[*host]int) // ports
	err := c.ask(ctx, lookTime, c.examined, func(n *host) wire.Message {
		return &wire.Listen{Address: c.byHost[n].Exam.Address, Token: token}
	}, func(n *host, m wire.Message) bool {
		listening, ok := m.(*wire.Listening)
		if ok && listening.Port > 0 {
			open[n] = listening.Port
		}
		return ok
	})
	if err != nil {
		return err
	}
	var ports []peerPort
	for _, n := range c.examined {
		address := c.byHost[n].Exam.Address
		if ip := net.ParseIP(address); open[n] > 0 && ip != nil && !ip.IsLoopback() {
			at := net.JoinHostPort(address, strconv.Itoa(open[n]))
			ports = append(ports, peerPort{n, wire.ProbePort{Node: n.def.Name, Address: at, Token: token}})
		}
	}
	return c.probeAll(ctx, ports)
}

// probeAll lets each node probe its partners.
func (c *checkup) probeAll(ctx context.Context, ports []peerPort) error {
	calls := make(map[*host][]wire.ProbePort)
	var callers []*host
	for i, d := range ports {
		callers = append(callers, d.host)
		for _, k := range partners(i, len(ports)) {
			if !c.sameMachine(d.host, ports[k].host) {
				calls[d.host] = append(calls[d.host], ports[k].ProbePort)
			}
		}
	}
	return c.ask(ctx, peersTime, callers, func(n *host) wire.Message { return &wire.ProbePeers{Ports: calls[n]} },
		func(n *host, m wire.Message) bool {
			probed, ok := m.(*wire.PeersProbed)
			if ok {
				c.byHost[n].PeerProbes = probed.Probes
			}
			return ok
		})
}

// sameMachine reports whether two hosts are one node: what it says to itself, no network
// carries.
func (c *checkup) sameMachine(a, b *host) bool {
	return a.probe.Identity != "" && a.probe.Identity == b.probe.Identity
}

// peersTime is how long a node may take to probe others, which may not answer it.
const peersTime = 2 * lookTime

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

// end sends the helpers home, and notes those that were lost meanwhile.
func (c *checkup) end() {
	for n, one := range c.byHost {
		n.Send(&wire.Bye{})
		switch {
		case errors.As(n.lost, new(node.Silence)):
			one.Failure = defect(n.lost)
			one.Failure.Remedy = "is it overloaded, or does a file system hang there?"
		case n.lost != nil:
			one.Failure = job.Defect{Code: "lost", Text: fmt.Sprintf("lost contact (%s)", fault.Reason(n.lost)),
				Remedy: "does the host end processes of a login? look at its system log"}
		}
	}
}
