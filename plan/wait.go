package plan

import (
	"fmt"
	"strings"

	"remshell/hostlist"
	"remshell/job"
)

// decide is the order of 6.3: what can never start fails, then nobody passes by
// those who wait, then it matters whether the request fits. hopeless is asked only
// if it does not.
func decide(req job.Request, snap job.Snapshot, failed *Error, hopeless func() bool) *Error {
	if failed != nil && hopeless() {
		failed.Permanent = true
		return failed
	}
	if snap.Ahead > 0 {
		failed = &Error{Code: QueueBusy, Text: fmt.Sprintf("%s waiting in the queue before this one", count(snap.Ahead, "request"))}
	}
	if failed == nil {
		return nil
	}
	if req.Wait {
		failed.Position = snap.Ahead + 1
	} else if failed.Way += "; waiting could help"; failed.Way[0] == ';' {
		failed.Way = "waiting could help"
	}
	return failed
}

// hopeless reports whether a request would not even fit if every node of the list
// were idle and reachable (6.2). A node whose size nobody has seen may be as large as
// it takes.
func hopeless(req job.Request, sites []site, turns, of []int) bool {
	idle := make([]site, len(sites))
	for i := range sites {
		idle[i] = sites[i].ideal()
	}
	for _, i := range turns {
		if len(idle[i].Topology.Cores) == 0 && idle[i].Slots == 0 && allowed(req, &idle[i]) {
			return false
		}
	}
	usable, _ := judge(req, idle, turns)
	s := newSeating(req, idle, of, remaining(turns, usable))
	return s.all(usable) != nil
}

// nowhere is the refusal when a part of the job has no node at all; alone says that
// it is the only part.
func nowhere(app job.App, alone bool) *Error {
	if app.Hosts == nil || alone {
		return &Error{Code: NoNodes, Text: "no node of the list can be used now", Way: "name other nodes, or ask less of them"}
	}
	return &Error{Code: NoNodes, Text: fmt.Sprintf("no node is left for %s: it is to run on %s only",
		strings.Join(app.Argv[:min(1, len(app.Argv))], ""), hostlist.Fold(app.Hosts)), Way: "name other hosts for it"}
}

// shortfall is the refusal of PLACE-4, with the room there is and the ways out.
func (a *area) shortfall(n int) *Error {
	room, where := a.unused(), fmt.Sprintf("%s (%s)", count(len(a.sites), "node"), hostlist.Fold(a.names))
	if most := a.app.PerNode; most > 0 && most*len(a.sites) < n && a.size >= n*max(1, a.app.Threads) {
		return &Error{Code: NotEnough, Text: fmt.Sprintf("%d ranks do not fit: -ppn %d leaves room for %d on %s",
			n, most, room, where), Way: "raise -ppn or name more hosts"}
	}
	return &Error{Code: NotEnough, Text: fmt.Sprintf("%d ranks%s do not fit: there are free slots for %d on %s", n, a.width(), room, where),
		Way: "start fewer ranks, name more hosts, give slots (HOST:N), or share CPUs with --overbook"}
}

// width tells how many CPUs each rank takes, if not one, and who said so.
func (a *area) width() string {
	switch {
	case a.app.Threads <= 1:
		return ""
	case a.app.ThreadsFrom == "":
		return fmt.Sprintf(" of %d CPUs each", a.app.Threads)
	}
	return fmt.Sprintf(" of %d CPUs each (%s)", a.app.Threads, a.app.ThreadsFrom)
}

// limited is the refusal when limits stand in the way, not CPUs.
func (a *area) limited(n, most int) *Error {
	return &Error{Code: Limits, Text: fmt.Sprintf("%d ranks do not fit: -ppn, max_slots or maxproc allow %d on %s",
		n, most, count(len(a.sites), "node")), Way: "raise the limit or name more hosts"}
}
