package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/hostlist"
	"remshell/job"
	"remshell/text"
)

// decide is the order of 6.3: what can never start fails, then nobody passes by
// those who wait, then it matters whether the request fits. hopeless is asked only
// if it does not.
func decide(req job.Request, snap job.Snapshot, failed *Error, hopeless func() bool) *Error {
	if failed != nil && hopeless() {
		failed.Permanent = true
		failed.Text = strings.TrimSuffix(cmp.Or(failed.never, failed.Text), " now")
		failed.Way = strings.TrimPrefix(failed.Way, waiting)
		return failed
	}
	if snap.Ahead > 0 {
		failed = &Error{Code: QueueBusy, Text: fmt.Sprintf("%s waiting in the queue before this one", text.Count(snap.Ahead, "request"))}
	}
	if failed == nil {
		return nil
	}
	if req.Wait || failed.Code == Delayed {
		failed.Position = snap.Ahead + 1
	} else if strings.Contains(failed.Way, "--wait") {
		return failed
	} else if failed.Way += "; waiting could help: --wait"; failed.Way[0] == ';' {
		failed.Way = "waiting could help: --wait"
	}
	return failed
}

// inUse names whom to ask, if the only node of a list has no CPU left by the claims of others
// (TRUST-16).
func (p problem) inUse(failed *Error, rejected []job.Note) *Error {
	if failed == nil || failed.Code != NoNodes || p.tooFew() != nil || len(p.candidates) != 1 || p.candidates[0].Who == "" ||
		len(rejected) != 1 || rejected[0].Code != "cpus-full" {
		return failed
	}
	s := &p.candidates[0]
	idle := ""
	if s.Idle {
		idle = ", no process of it runs"
	}
	failed.alone = true
	failed.Text = fmt.Sprintf("%s: all %s are in use by jobs of %s (since %s%s)", s.Name, text.Count(s.Size(), "CPU"),
		s.Who, s.Since.Format(time.TimeOnly), idle)
	switch {
	case s.Who != p.req.User.Name:
		failed.Way = fmt.Sprintf("ask %s or an administrator (mpiexec --evict %s %s)", s.Who, s.WhoJob, s.Name)
	case s.Idle:
		failed.Way = fmt.Sprintf("end what holds them: mpiexec --evict %s %s", s.WhoJob, s.Name)
	default:
		failed.Way = fmt.Sprintf("end a job of yours: mpiexec --end %s %s", s.WhoJob, s.Name)
	}
	if !p.req.Wait {
		failed.Way += ", or wait with --wait"
	}
	return failed
}

// tooFew is the refusal when fewer nodes can be reached than the user wants at least.
func (p problem) tooFew() *Error {
	up := 0
	for _, i := range distinct(p.turns, len(p.candidates)) {
		if p.candidates[i].Down == "" {
			up++
		}
	}
	if up >= p.req.Least {
		return nil
	}
	return &Error{Code: NoNodes, Text: fmt.Sprintf("%s can be reached, and --min-nodes wants %d", text.Count(up, "node"), p.req.Least),
		Way: "see to the others, or lower it"}
}

// nowhere is the refusal when a part of the job has no node at all; alone says that
// it is the only part.
func nowhere(app job.App, alone bool) *Error {
	if app.Hosts == nil || alone {
		return &Error{Code: NoNodes, Text: "no host can take this job now", Way: "name other hosts, or ask less of them"}
	}
	return &Error{Code: NoNodes, Text: fmt.Sprintf("no node is left for %s: it is to run on %s only",
		strings.Join(app.Argv[:min(1, len(app.Argv))], ""), hostlist.Brief(app.Hosts)), Way: "name other hosts for it"}
}

// shortfall is the refusal of PLACE-4, with the room there is and the ways out.
func (s *placement) shortfall(a *eligible, n int) *Error {
	room, where := a.unused(), fmt.Sprintf("%s (%s)", text.Count(len(a.candidates), "node"), hostlist.Brief(a.names))
	if most := a.app.PerNode; most > 0 && most*len(a.candidates) < n && a.size >= n*max(1, a.app.Threads) {
		return &Error{Code: NotEnough, Text: fmt.Sprintf("%s: -ppn %d leaves room for %d on %s",
			s.tooMany(a, n), most, room, where), Way: "raise -ppn or name more hosts", Wanted: n, Free: room}
	}
	text := fmt.Sprintf("%s: there are free slots for %d on %s", s.tooMany(a, n), room, where)
	causes := s.causes(a)
	if causes != "" {
		text += ", where " + causes
	}
	text += s.confinedOf(a.candidates)
	slots, share := "give slots (HOST:N)", "share CPUs with --oversubscribe"
	if slices.ContainsFunc(a.candidates, func(i int) bool { return s.candidates[i].Slots > 0 }) {
		slots = "write more slots down (HOST:N)"
	}
	switch {
	case contiguous(s.req):
		share = "leave out --contiguous and share CPUs with --oversubscribe"
	case s.req.Forbid && s.req.Home:
		share = "leave out --nooversubscribe"
	case s.req.Forbid:
		share = "take --oversubscribe in place of --nooversubscribe"
	}
	way := "start fewer ranks, name more hosts, " + slots + ", or " + share
	switch {
	case causes != "" && sum(s.bounds(a, n)) < n:
		way = "start fewer ranks, name more hosts, or raise the limit" // which sharing CPUs does not
	case slices.ContainsFunc(a.candidates, func(i int) bool { return s.candidates[i].Procs > 0 }):
		way = "start fewer ranks or name more hosts" // the CPUs are other jobs'
	}
	return &Error{Code: NotEnough, Text: text, Wanted: n, Free: room, Way: way}
}

// noMember is the refusal of a section that has a choice of numbers of ranks.
func (s *placement) noMember(a *eligible) *Error {
	least := a.app.Soft[len(a.app.Soft)-1]
	failed := s.shortfall(a, least)
	if len(a.app.Soft) > 1 {
		failed.Text = fmt.Sprintf("-soft allows %s, and already %s", members(a.app.Soft), failed.Text)
	}
	return failed
}

// members lists numbers, ascending; of very many the ends.
func members(descending []int) string {
	const most = 12
	var words []string
	for _, n := range slices.Backward(descending) {
		words = append(words, strconv.Itoa(n))
	}
	if n := len(words); n > most {
		words = append(append(words[:most-2:most-2], "..."), words[n-1])
	}
	return strings.Join(words, ", ") + " ranks"
}

// tooMany tells how many ranks do not fit, and of what, if the job has several parts.
func (s *placement) tooMany(a *eligible, n int) string {
	text := text.Count(n, "rank")
	if len(s.req.Apps) > 1 && len(a.app.Argv) > 0 {
		text += " (" + a.app.Argv[0] + ")"
	}
	if n == 1 {
		return text + a.width() + " does not fit"
	}
	return text + a.width() + " do not fit"
}

// causes tells which limits, and not CPUs, keep ranks away from candidates: "maxproc allows 2
// on n4".
func (s *placement) causes(a *eligible) string {
	type cause struct {
		by   string
		most int
	}
	var parts []string
	for _, g := range text.Groups(a.candidates, func(i int) (c cause, name string) {
		c = cause{a.by[i], a.limit[i]}
		if c.by == "" || c.most >= s.ranksIn(i, s.free[i], max(1, a.app.Threads)) {
			return c, ""
		}
		return c, s.candidates[i].Name
	}) {
		parts = append(parts, fmt.Sprintf("%s allows %d on %s", g.Common.by, g.Common.most, hostlist.Brief(g.Names)))
	}
	return strings.Join(parts, ", ")
}

// width tells how many CPUs each rank takes, if not one, and who said so.
func (a *eligible) width() string {
	switch {
	case a.app.Threads <= 1:
		return ""
	case a.app.ThreadsFrom == "":
		return fmt.Sprintf(" of %d CPUs each", a.app.Threads)
	}
	return fmt.Sprintf(" of %d CPUs each (%s)", a.app.Threads, a.app.ThreadsFrom)
}

// limited is the refusal when limits stand in the way, not CPUs.
func (s *placement) limited(a *eligible, n, most int) *Error {
	var by []string
	for _, i := range a.candidates {
		by = append(by, a.by[i])
		if s.candidates[i].NoOverbook {
			by = append(by, `overbook = "no"`)
		}
	}
	slices.Sort(by)
	by = slices.DeleteFunc(slices.Compact(by), func(text string) bool { return text == "" })
	verb := "allows"
	if len(by) != 1 {
		verb = "allow"
	}
	return &Error{Code: Limits, Text: fmt.Sprintf("%s: %s %s %d on %s (%s)", s.tooMany(a, n), strings.Join(by, " and "),
		verb, most, text.Count(len(a.candidates), "node"), hostlist.Brief(a.names)), Way: "raise the limit or name more hosts", Wanted: n, Free: most}
}

// confined tells what keeps ranks off some of a node's cores: who calls mpiexec under taskset, or in a batch job, reads why
// the node is so small. It is empty if nothing does, or if the slots were written down. reserve is the job's.
func confined(n job.Node, reserve int) string {
	if n.Slots > 0 {
		return ""
	}
	return n.Bounds(reserve).String()
}

// confinedOf tells it of several nodes, equal words once, as the rest of a sentence.
func (s *placement) confinedOf(which []int) string {
	var why strings.Builder
	for _, g := range text.Groups(which, func(i int) (string, string) {
		return confined(s.candidates[i].Node, s.req.Reserve), s.candidates[i].Name
	}) {
		if g.Common != "" {
			fmt.Fprintf(&why, "; on %s %s", hostlist.Brief(g.Names), g.Common)
		}
	}
	return why.String()
}
