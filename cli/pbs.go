package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"remshell/fault"
	"remshell/hostlist"
	"remshell/job"
	"remshell/reach"
	"remshell/reach/starter"
)

// A joiner knows of which nodes the sessions that ssh has made are not of the job of PBS's, and why.
type joiner struct {
	job  string
	mu   sync.Mutex
	left map[string]string
}

// maxJob is how long the number of a job may be that is sent to each node.
const maxJob = 256

// usePBS has the nodes' shells join the job of PBS's (RM-30): hosts are reached by ssh all the same.
func (c *call) usePBS() error {
	system, number := c.world.Inside()
	if system != starter.PBS || number == "" || len(number) > maxJob || strings.HasPrefix(number, "-") {
		return &fault.Error{Text: fmt.Sprintf("-launcher pbs: this is no job of %s's", starter.PBSName), Remedy: starter.PBSWithin + "; or use -launcher ssh"}
	}
	c.joined = &joiner{job: number, left: make(map[string]string)}
	if c.req.RM != nil {
		c.req.RM.Starter, c.req.RM.Grade = starter.Attach, job.Tight
	}
	c.env.Log.Info().Msgf("%s is called as the manuals of %s have it; nobody has told that it works", starter.Attach, starter.PBSName)
	return nil
}

// join makes the program one whose shells join; nil: nobody does.
func (j *joiner) join(self reach.Self) reach.Self {
	if j == nil {
		return self
	}
	return self.Joining(j.job, func(host, why string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.left[host] = why
	})
}

// warning is M10, for the nodes of a plan; empty: all have joined.
func (j *joiner) warning(nodes []job.NodePlan) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	by := make(map[string][]string)
	for _, n := range nodes {
		if why, left := j.left[n.Name]; left {
			how := "failed"
			if why == "missing" {
				how = "not found"
			}
			by[how] = append(by[how], n.Name)
		}
	}
	var clauses []string
	for _, how := range slices.Sorted(maps.Keys(by)) {
		clauses = append(clauses, fmt.Sprintf("%s %s on %s", starter.Attach, how, hostlist.Fold(by[how])))
	}
	if clauses == nil {
		return ""
	}
	return fmt.Sprintf("warning: %s: %s will not account for ranks there", strings.Join(clauses, ", "), starter.PBS)
}

// unjoined has it told, once, where ranks of a plan are outside of the job of PBS's; such a job is loose.
func (c *call) unjoined() {
	if c.joined == nil {
		return
	}
	c.whenPlanned(func(_ job.Snapshot, p job.Plan) {
		text := c.joined.warning(p.Nodes)
		if text == "" {
			return
		}
		if rm := c.req.RM; rm != nil {
			rm.Grade = job.Loose
		}
		c.env.Say(text)
	})
}
