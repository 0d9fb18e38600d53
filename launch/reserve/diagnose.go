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

	"remshell/job"
	"remshell/launch/node"
	"remshell/plan"
	"remshell/usererr"
	"remshell/wire"
)

// Diagnose looks at all hosts of a request as --doctor does (DIAG-5): each one by itself, and each
// from some others. Those that cannot be reached are part of the answer. If the request has a program,
// refused is why a start would refuse the job now; it is nil if a host that is needed cannot be used.
func Diagnose(ctx context.Context, req job.Request, env Env) (checkups []job.HostDiagnosis, refused, err error) {
	ctx, r, done := newQuery(ctx, req, env)
	defer done()
	listed := req.ListedNodes()
	needed := func(job.NodeDef) bool { return false }
	var keepers []job.NodeDef
	program := hasProgram(req, 0)
	if program {
		needed = plan.ProbeFilter(req)
		keepers = req.Queue.QueueHosts()
	}
	nodes := slices.DeleteFunc(slices.Clone(req.Nodes), func(def job.NodeDef) bool { return !listed[def.Name] && !needed(def) })
	keepers = slices.DeleteFunc(keepers, func(def job.NodeDef) bool { return slices.ContainsFunc(nodes, def.IsSameNode) })
	r.connectAll(ctx, nodes, keepers)
	c := &diagnosis{reservation: r, byHost: make(map[*host]*job.HostDiagnosis)}
	checkups = c.beginHosts(listed)
	err = errors.Join(c.diagnoseHosts(ctx), c.probePeers(ctx))
	if err == nil && program {
		refused = c.refusal(ctx)
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx) // the user gave up
	}
	if err != nil {
		return nil, nil, err
	}
	c.disconnect()
	return checkups, refused, nil
}

// refusal makes the plan that a start would make now, and returns why there is none.
func (c *diagnosis) refusal(ctx context.Context) error {
	if len(c.connectFailures()) > 0 && !c.req.SkipUnreachable || len(c.reachedHosts()) == 0 {
		return nil // the hosts' own failures say it
	}
	if err := c.queue.ChooseHost(); err != nil {
		return err
	}
	err := c.surveyNodes(ctx)
	if errors.As(err, new(*HostsError)) {
		return nil
	}
	if err == nil {
		c.snap.Ahead, err = c.queue.Count(ctx, queryTimeout)
	}
	if err == nil {
		_, err = makePlan(ctx, c.req, c.snap)
	}
	return err
}

// A diagnosis is that of all hosts.
type diagnosis struct {
	*reservation
	hosts  []*host // without those that only the plan needs
	byHost map[*host]*job.HostDiagnosis
}

// beginHosts notes how each listed host was reached, or why it was not.
func (c *diagnosis) beginHosts(listed map[string]bool) []job.HostDiagnosis {
	checkups := make([]job.HostDiagnosis, 0, len(c.req.Nodes)) // it does not grow: byHost points into it
	for _, def := range c.req.Nodes {
		if !listed[def.Name] {
			continue
		}
		checkups = append(checkups, job.HostDiagnosis{})
		one := &checkups[len(checkups)-1]
		one.Node, one.Local, one.ClusterPolicy = def.Name, def.Local, def.NodePolicy
		if err := c.errs[def.Name]; err != nil {
			one.Failure, one.Detail = defectOf(err), usererr.Detail(err)
			continue
		}
		if n := c.byName[def.Name]; n != nil {
			c.byHost[n], c.hosts = one, append(c.hosts, n)
			one.Probe, one.Noise, one.Login, one.Shell = n.probe, string(n.Noise()), n.Login(), n.Shell()
		}
	}
	return checkups
}

// defectOf is an error of a host for people and programs, without the host's name.
func defectOf(err error) job.Defect {
	d := job.Defect{Code: "unusable", Text: usererr.Reason(err), Remedy: usererr.Hint(err)}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		d.Code = coded.Code()
	}
	return d
}

// diagnoseHosts lets every helper look at its machine, and asks it for its ledger.
func (c *diagnosis) diagnoseHosts(ctx context.Context) error {
	local := c.localAddress(c.hosts)
	asked := make(map[*host]time.Time)
	err := c.requestEach(ctx, queryTimeout, c.hosts, func(n *host) wire.Message {
		asked[n] = time.Now()
		m := lookFor(c.req, 0, n.def)
		m.Ledger = c.req.Queue.LedgerDir
		if n.def.Local {
			m.Address = local
		}
		return m
	}, func(n *host, m wire.Message) bool {
		answer, ok := m.(*wire.Diagnosed)
		if ok {
			one := c.byHost[n]
			one.Diagnosis = answer.Diagnosis
			one.Skew, one.SkewError = clockSkew(asked[n], time.Now(), answer.Diagnosis.Clock)
		}
		return ok
	})
	if err != nil {
		return err
	}
	return c.requestEach(ctx, queryTimeout, c.hosts, func(*host) wire.Message {
		return &wire.ListLedger{Ledger: c.req.Queue.LedgerDir, MaxBytes: maxListing(len(c.hosts))}
	},
		func(n *host, m wire.Message) bool {
			listed, ok := m.(*wire.LedgerListed)
			if ok {
				c.byHost[n].Ledger = job.LedgerListing{Node: n.def.Name, Path: listed.Path, Claims: listed.Claims, Err: listed.Err, Notice: listed.Notice}
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
func lookFor(req job.Request, app int, def job.NodeDef) *wire.Diagnose {
	m := new(wire.Diagnose)
	if app >= len(req.Apps) || len(req.Apps[app].Argv) == 0 {
		return m
	}
	of := appsOnNode(req.Apps, make([]int, len(req.Apps)), def)[app]
	environ := slices.Concat(baseEnv(req, def, nil).Set, of.Env.Set)
	m.Dir, m.Path, m.Libraries = of.Dir, job.EnvValue(environ, "PATH"), job.EnvValue(environ, "LD_LIBRARY_PATH")
	if len(of.SearchBefore)+len(of.SearchAfter) > 0 {
		m.Path = strings.Join(slices.Concat(of.SearchBefore, []string{cmp.Or(m.Path, job.DefaultPath)}, of.SearchAfter), ":")
	}
	if of.StagedFile == "" {
		m.Program = of.Argv[0]
	}
	return m
}

// clockSkew is by how much a clock that was read between two moments is ahead of ours, and how
// wrong that may be. Moments are compared by the clocks of the wall.
func clockSkew(asked, heard, clock time.Time) (ahead, blur time.Duration) {
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
func (c *diagnosis) probePeers(ctx context.Context) error {
	if len(c.hosts) < 2 {
		return nil
	}
	token := rand.Text()
	open := make(map[*host]int) // ports
	err := c.requestEach(ctx, queryTimeout, c.hosts, func(n *host) wire.Message {
		return &wire.OpenProbePort{Address: c.byHost[n].Diagnosis.Address, Token: token}
	}, func(n *host, m wire.Message) bool {
		listening, ok := m.(*wire.ProbePortOpened)
		if ok && listening.Port > 0 {
			open[n] = listening.Port
		}
		return ok
	})
	if err != nil {
		return err
	}
	var ports []peerPort
	for _, n := range c.hosts {
		address := c.byHost[n].Diagnosis.Address
		if ip := net.ParseIP(address); open[n] > 0 && ip != nil && !ip.IsLoopback() {
			at := net.JoinHostPort(address, strconv.Itoa(open[n]))
			ports = append(ports, peerPort{n, wire.ProbePort{Node: n.def.Name, Address: at, Token: token}})
		}
	}
	return c.probeAll(ctx, ports)
}

// probeAll lets each node probe its partners.
func (c *diagnosis) probeAll(ctx context.Context, ports []peerPort) error {
	calls := make(map[*host][]wire.ProbePort)
	var callers []*host
	for i, d := range ports {
		callers = append(callers, d.host)
		for _, k := range probePartners(i, len(ports)) {
			if !c.sameMachine(d.host, ports[k].host) {
				calls[d.host] = append(calls[d.host], ports[k].ProbePort)
			}
		}
	}
	return c.requestEach(ctx, peerProbeTimeout, callers, func(n *host) wire.Message { return &wire.ProbePeers{Ports: calls[n]} },
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
func (c *diagnosis) sameMachine(a, b *host) bool {
	return a.probe.Identity != "" && a.probe.Identity == b.probe.Identity
}

// peerProbeTimeout is how long a node may take to probe others, which may not answer it.
const peerProbeTimeout = 2 * queryTimeout

// maxAllPairs is up to how many hosts each probes every other.
const maxAllPairs = 32

// probePartners are those that host i of n probes: all others, or, among many, those at the
// distances 1, 2, 4, ... to both sides, so that all are probed from several sides.
func probePartners(i, n int) (found []int) {
	if n <= maxAllPairs {
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

// disconnect sends the helpers home, and notes those that were lost meanwhile.
func (c *diagnosis) disconnect() {
	for n, one := range c.byHost {
		n.Send(&wire.Bye{})
		switch {
		case errors.As(n.lost, new(node.NoAnswerError)):
			one.Failure = defectOf(n.lost)
			one.Failure.Remedy = "is it overloaded, or does a file system hang there?"
		case n.lost != nil:
			one.Failure = job.Defect{Code: "lost", Text: fmt.Sprintf("lost contact (%s)", usererr.Reason(n.lost)),
				Remedy: "does the host end processes of a login? look at its system log"}
		}
	}
}
