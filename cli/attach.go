package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"remshell/batch"
	"remshell/cli/request"
	"remshell/hostlist"
	"remshell/job"
	"remshell/transport"
)

// An attacher adds the shells that ssh starts on nodes to a batch job. The batch system then accounts for the ranks
// (rule RM-30). It records the nodes on which that failed, with the reasons.
type attacher struct {
	system *batch.System // System.Attach is not nil
	job    string
	mu     sync.Mutex // guards failed
	failed map[string]string
}

// useAttach makes the nodes' shells join the batch job. mpiexec still reaches the hosts by ssh.
func (c *invocation) useAttach(s request.Starter) {
	by := s.System.Attach.Program
	c.attached = &attacher{system: s.System, job: s.Job, failed: make(map[string]string)}
	if c.req.RM != nil {
		c.req.RM.Starter, c.req.RM.Integration = by, job.TightIntegration
	}
	c.logUntried(by, s.System)
}

// attach returns a changed copy of self, the helper binary that ssh starts on nodes. With this copy, the node's shell
// joins the batch job before it starts the helper. If a is nil, attach returns self unchanged.
func (a *attacher) attach(self transport.HelperBinary) transport.HelperBinary {
	if a == nil {
		return self
	}
	return self.Attaching(a.system.Attach, a.job, func(host, why string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.failed[host] = why
	})
}

// warning returns a warning that lists those of the given nodes whose shell has not joined the batch job. If all
// shells have joined, it returns "".
func (a *attacher) warning(nodes []job.NodePlan) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := make(map[string][]string)
	for _, n := range nodes {
		if why, failed := a.failed[n.Name]; failed {
			failure := "%s failed on %s"
			if why == "missing" {
				failure = "%s was not found on %s"
			}
			by[failure] = append(by[failure], n.Name)
		}
	}
	var failures []string
	for _, failure := range slices.Sorted(maps.Keys(by)) {
		failures = append(failures, fmt.Sprintf(failure, a.system.Attach.Program, hostlist.Fold(by[failure])))
	}
	if failures == nil {
		return ""
	}
	return fmt.Sprintf("warning: %s, so %s will not account for ranks on these hosts", strings.Join(failures, " and "), a.system.Title)
}

// reportUnattached prints one warning if ranks of the plan run outside the batch job, so that the batch
// system does not account for them.
func (c *invocation) reportUnattached() {
	if c.attached == nil {
		return
	}
	c.onPlan(func(_ job.Snapshot, p job.Plan) {
		text := c.attached.warning(p.Nodes)
		if text == "" {
			return
		}
		if rm := c.req.RM; rm != nil {
			rm.Integration = job.LooseIntegration
		}
		c.env.Report(text)
	})
}
