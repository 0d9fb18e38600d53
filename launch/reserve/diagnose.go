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

// Diagnose examines all hosts of a request for --doctor (rule DIAG-5), and the network between them. The
// result includes hosts that cannot be reached. If the request has a program, refused is the error that
// starting it now would cause. If a host that the program needs cannot be used, refused is nil, because the
// diagnoses already say so.
func Diagnose(ctx context.Context, req job.Request, env Env) (diagnoses []job.HostDiagnosis, refused, err error) {
	ctx, r, done := newQuery(ctx, req, env)
	defer done()
	listed := req.ListedNodes()
	needed := func(job.NodeDef) bool { return false }
	var queueHosts []job.NodeDef
	program := hasProgram(req, 0)
	if program {
		needed = plan.ProbeFilter(req)
		queueHosts = req.Queue.QueueHosts()
	}
	nodes := slices.DeleteFunc(slices.Clone(req.Nodes), func(def job.NodeDef) bool { return !listed[def.Name] && !needed(def) })
	queueHosts = slices.DeleteFunc(queueHosts, func(def job.NodeDef) bool { return slices.ContainsFunc(nodes, def.IsSameNode) })
	r.connectAll(ctx, nodes, queueHosts)
	c := &diagnosis{reservation: r, byHost: make(map[*host]*job.HostDiagnosis)}
	diagnoses = c.beginHosts(listed)
	err = errors.Join(c.diagnoseHosts(ctx), c.probePeers(ctx))
	if err == nil && program {
		refused = c.refusal(ctx)
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx) // the user cancelled
	}
	if err != nil {
		return nil, nil, err
	}
	c.disconnect()
	return diagnoses, refused, nil
}

// refusal makes a plan, to find out whether the program could start now. It returns the error if no plan is possible.
func (c *diagnosis) refusal(ctx context.Context) error {
	if len(c.connectFailures()) > 0 && !c.req.SkipUnreachable || len(c.reachedHosts()) == 0 {
		return nil // the hosts' own failures say why
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

// A diagnosis holds the state of one call of Diagnose.
type diagnosis struct {
	*reservation
	hosts  []*host // without hosts that only the plan needs
	byHost map[*host]*job.HostDiagnosis
}

// beginHosts returns a diagnosis for each listed host. At this point, a diagnosis only says how the host was
// reached, or why it was not.
func (c *diagnosis) beginHosts(listed map[string]bool) []job.HostDiagnosis {
	diagnoses := make([]job.HostDiagnosis, 0, len(c.req.Nodes)) // must not grow: byHost points into it
	for _, def := range c.req.Nodes {
		if !listed[def.Name] {
			continue
		}
		diagnoses = append(diagnoses, job.HostDiagnosis{})
		one := &diagnoses[len(diagnoses)-1]
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
	return diagnoses
}

// defectOf converts an error of a host to a Defect, which does not name the host.
func defectOf(err error) job.Defect {
	d := job.Defect{Code: "unusable", Text: usererr.Reason(err), Remedy: usererr.Hint(err)}
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		d.Code = coded.Code()
	}
	return d
}

// diagnoseHosts asks each helper to examine its machine and to list the claims of jobs on it.
func (c *diagnosis) diagnoseHosts(ctx context.Context) error {
	local := c.localAddress(c.hosts)
	sent := make(map[*host]time.Time)
	err := call(ctx, c.reservation, queryTimeout, c.hosts, func(n *host) *wire.Diagnose {
		sent[n] = time.Now()
		m := lookFor(c.req, 0, n.def)
		m.Ledger = c.req.Queue.LedgerDir
		if n.def.Local {
			m.Address = local
		}
		return m
	}, func(n *host, answer *wire.Diagnosed) {
		one := c.byHost[n]
		one.Diagnosis = answer.Diagnosis
		one.Skew, one.SkewError = clockSkew(sent[n], time.Now(), answer.Diagnosis.Clock)
	})
	if err != nil {
		return err
	}
	return call(ctx, c.reservation, queryTimeout, c.hosts, func(*host) *wire.ListLedger {
		return &wire.ListLedger{Ledger: c.req.Queue.LedgerDir, MaxBytes: maxListing(len(c.hosts))}
	}, func(n *host, listed *wire.LedgerListed) {
		c.byHost[n].Ledger = job.LedgerListing{Node: n.def.Name, Path: listed.Path, Claims: listed.Claims, Err: listed.Err, Notice: listed.Notice, Settings: listed.Settings}
	})
}

// hasProgram reports whether an app context of the request has a program.
func hasProgram(req job.Request, app int) bool {
	return app < len(req.Apps) && len(req.Apps[app].Argv) > 0 && req.Apps[app].Argv[0] != ""
}

// lookFor returns a message that asks whether a host has the working directory and the program of an app context. The
// message does not ask for a program that mpiexec copies to the host (--stage).
func lookFor(req job.Request, app int, def job.NodeDef) *wire.Diagnose {
	m := new(wire.Diagnose)
	if app >= len(req.Apps) || len(req.Apps[app].Argv) == 0 {
		return m
	}
	one := appsOnNode(req.Apps, make([]int, len(req.Apps)), def)[app]
	environ := slices.Concat(baseEnv(req, def, nil).Set, one.Env.Set)
	m.Dir, m.Path, m.Libraries = one.Dir, job.EnvValue(environ, "PATH"), job.EnvValue(environ, "LD_LIBRARY_PATH")
	if len(one.SearchBefore)+len(one.SearchAfter) > 0 {
		m.Path = strings.Join(slices.Concat(one.SearchBefore, []string{cmp.Or(m.Path, job.DefaultPath)}, one.SearchAfter), ":")
	}
	if one.StagedFile == "" {
		m.Program = one.Argv[0]
	}
	return m
}

// clockSkew returns by how much a host's clock is ahead of this machine's, and the maximum error of this result. clock
// is the host's time at a moment between sent and received, which are times of this machine. Their monotonic clock
// readings are ignored.
func clockSkew(sent, received, clock time.Time) (ahead, skewError time.Duration) {
	sent, received = sent.Round(0), received.Round(0)
	skewError = received.Sub(sent) / 2
	return clock.Sub(sent.Add(skewError)), skewError
}

// A peerPort is a port on which a node waits for test connections from other nodes.
type peerPort struct {
	*host
	wire.ProbePort
}

// probePeers makes all nodes listen on a port and connect to the ports of other nodes, to test the network
// between them. A node without an address that the others can use is left out.
func (c *diagnosis) probePeers(ctx context.Context) error {
	if len(c.hosts) < 2 {
		return nil
	}
	token := rand.Text()
	open := make(map[*host]int) // ports
	err := call(ctx, c.reservation, queryTimeout, c.hosts, func(n *host) *wire.OpenProbePort {
		return &wire.OpenProbePort{Address: c.byHost[n].Diagnosis.Address, Token: token}
	}, func(n *host, opened *wire.ProbePortOpened) { open[n] = opened.Port })
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

// probeAll tells each node to test its connections to the nodes that probePartners returns.
func (c *diagnosis) probeAll(ctx context.Context, ports []peerPort) error {
	targets := make(map[*host][]wire.ProbePort)
	var probers []*host
	for i, d := range ports {
		probers = append(probers, d.host)
		for _, k := range probePartners(i, len(ports)) {
			if !c.sameMachine(d.host, ports[k].host) {
				targets[d.host] = append(targets[d.host], ports[k].ProbePort)
			}
		}
	}
	return call(ctx, c.reservation, peerProbeTimeout, probers, func(n *host) *wire.ProbePeers { return &wire.ProbePeers{Ports: targets[n]} },
		func(n *host, probed *wire.PeersProbed) { c.byHost[n].PeerProbes = probed.Probes })
}

// sameMachine reports whether two hosts are one machine. Traffic between them uses no network, so it is
// not probed.
func (c *diagnosis) sameMachine(a, b *host) bool {
	return a.probe.Identity != "" && a.probe.Identity == b.probe.Identity
}

// peerProbeTimeout is how long a node may take to test its connections to other nodes. It includes the time until
// connections to silent nodes time out.
const peerProbeTimeout = 2 * queryTimeout

// maxAllPairs is the maximum number of hosts with which each host tests its connections to all others.
const maxAllPairs = 32

// probePartners returns the indices of the hosts to which host i tests its connections. n is the number of hosts. If n
// is at most maxAllPairs, these are all other hosts. Otherwise these are the hosts at distances 1, 2, 4, ... before and
// after host i.
func probePartners(i, n int) (found []int) {
	if n <= maxAllPairs {
		for k := range n {
			if k != i {
				found = append(found, k)
			}
		}
		return found
	}
	for distance := 1; distance <= n/2; distance *= 2 {
		found = append(found, (i+distance)%n)
		if back := (i - distance + n) % n; back != (i+distance)%n {
			found = append(found, back)
		}
	}
	return found
}

// disconnect ends the helpers. It also records which hosts were lost during the diagnosis.
func (c *diagnosis) disconnect() {
	for n, one := range c.byHost {
		n.Send(&wire.Bye{})
		switch {
		case errors.As(n.lost, new(node.NoAnswerError)):
			one.Failure = defectOf(n.lost)
			one.Failure.Remedy = "check whether the host is overloaded, or a file system hangs there"
		case n.lost != nil:
			one.Failure = job.Defect{Code: "lost", Text: fmt.Sprintf("mpiexec lost contact with the host (%s)", usererr.Reason(n.lost)),
				Remedy: "look in the system log of the host for a program that ends the processes of ssh logins"}
		}
	}
}
