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

// An attacher has the shells that ssh starts on nodes attach themselves to the job of a batch system (RM-30), and knows of which that
// was not done, and why.
type attacher struct {
	system *batch.System // it has an Attach
	job    string
	mu     sync.Mutex // guards left
	left   map[string]string
}

// useAttach has the nodes' shells attach themselves to the job: hosts are reached by ssh all the same.
func (c *invocation) useAttach(s request.Starter) {
	by := s.System.Attach.Program
	c.attached = &attacher{system: s.System, job: s.Job, left: make(map[string]string)}
	if c.req.RM != nil {
		c.req.RM.Starter, c.req.RM.Integration = by, job.TightIntegration
	}
	c.tellUntried(by, s.System)
}

// attach makes the program one whose shells attach themselves; nil: none do.
func (a *attacher) attach(self transport.HelperBinary) transport.HelperBinary {
	if a == nil {
		return self
	}
	return self.Attaching(a.system.Attach, a.job, func(host, why string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.left[host] = why
	})
}

// warning is M10, for the nodes of a plan; empty: all are attached.
func (a *attacher) warning(nodes []job.NodePlan) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	by := make(map[string][]string)
	for _, n := range nodes {
		if why, left := a.left[n.Name]; left {
			how := "failed"
			if why == "missing" {
				how = "not found"
			}
			by[how] = append(by[how], n.Name)
		}
	}
	var clauses []string
	for _, how := range slices.Sorted(maps.Keys(by)) {
		clauses = append(clauses, fmt.Sprintf("%s %s on %s", a.system.Attach.Program, how, hostlist.Fold(by[how])))
	}
	if clauses == nil {
		return ""
	}
	return fmt.Sprintf("warning: %s: %s will not account for ranks there", strings.Join(clauses, ", "), a.system.Name)
}

// unattached has it told, once, where ranks of a plan are outside of the batch system's job; such a job is loose.
func (c *invocation) unattached() {
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
