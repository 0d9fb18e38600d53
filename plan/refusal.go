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

// chooseRefusal returns the error for a job that cannot start now, or nil if it can. In the order of placement.md
// 6.3, it checks whether the job can never start, would overtake waiting requests, or does not fit now.
// isImpossible reports whether the job can never start. It is called only if the job does not fit.
func chooseRefusal(req job.Request, snap job.Snapshot, failed *Error, isImpossible func() bool) *Error {
	if failed != nil && isImpossible() {
		failed.Permanent = true
		failed.Text = strings.TrimSuffix(cmp.Or(failed.permanentText, failed.Text), " now")
		failed.Remedy = strings.TrimPrefix(failed.Remedy, waitHint)
		return failed
	}
	if snap.Ahead > 0 {
		failed = &Error{Code: CodeQueueBusy, Text: fmt.Sprintf("this job must wait for %s in the queue", text.Count(snap.Ahead, "request"))}
	}
	if failed == nil {
		return nil
	}
	if req.Wait || failed.Code == CodeDelayed {
		failed.QueuePosition = snap.Ahead + 1
	} else if strings.Contains(failed.Remedy, "--wait") {
		return failed
	} else if failed.Remedy += "; or use --wait to wait for other jobs to end"; failed.Remedy[0] == ';' {
		failed.Remedy = "use --wait to wait for other jobs to end"
	}
	return failed
}

// refuseClaimedHost returns failed. If there is only one host and other jobs have claimed all its CPUs, it first
// changes failed: the text then names the user of these jobs, and the hint says how to free the CPUs (rule TRUST-16).
func (p problem) refuseClaimedHost(failed *Error, rejected []job.Note) *Error {
	if failed == nil || failed.Code != CodeNoNodes || p.refuseTooFewNodes() != nil || len(p.candidates) != 1 || p.candidates[0].TopUser == "" ||
		len(rejected) != 1 || rejected[0].Code != "cpus-full" {
		return failed
	}
	s := &p.candidates[0]
	user, since := s.TopUser, s.Since.Format(time.TimeOnly)
	failed.textNamesRejected = true
	failed.Text = fmt.Sprintf("%s: jobs of %s have used all %s since %s", s.Name, user, text.Count(s.SlotCount(), "CPU"), since) + s.describeFullGangs()
	if s.Idle {
		failed.Text += ", but no process of these jobs is running"
	}
	switch {
	case user != p.req.User.Name:
		failed.Remedy = fmt.Sprintf("ask %s or an administrator to free the CPUs (mpiexec --evict %s %s)", user, s.TopJob, s.Name)
	case s.Idle:
		failed.Remedy = fmt.Sprintf("remove the claims of that job: mpiexec --evict %s %s", s.TopJob, s.Name)
	default:
		failed.Remedy = fmt.Sprintf("end one of your jobs: mpiexec --end %s %s", s.TopJob, s.Name)
	}
	if !p.req.Wait {
		failed.Remedy += ", or use --wait to wait for other jobs to end"
	}
	return failed
}

// undrainHint returns the last part of a hint. It says how root can make drained nodes among the rejected nodes
// available again. It returns "" if no rejected node is drained.
func (p problem) undrainHint(rejected []job.Note) string {
	const maxNamed = 4 // hosts in the hint
	var drained []string
	for _, r := range rejected {
		if slices.ContainsFunc(p.candidates, func(s candidate) bool { return s.Name == r.Node && s.Drained }) {
			drained = append(drained, "root@"+r.Node)
		}
	}
	switch {
	case drained == nil:
		return ""
	case len(drained) > maxNamed:
		drained = []string{"root@HOST"}
	}
	return "; or ask root to run: mpijob undrain " + strings.Join(drained, " ")
}

// refuseTooFewNodes returns an error if mpiexec can connect to fewer nodes than --min-nodes requires. Otherwise it
// returns nil.
func (p problem) refuseTooFewNodes() *Error {
	up := 0
	for _, i := range distinctCandidates(p.entries, len(p.candidates)) {
		if p.candidates[i].Down == "" {
			up++
		}
	}
	if up >= p.req.MinNodes {
		return nil
	}
	return &Error{Code: CodeNoNodes, Text: fmt.Sprintf("%s can be reached, but --min-nodes requires %d", text.Count(up, "node"), p.req.MinNodes),
		Remedy: "make the other nodes reachable, or lower --min-nodes"}
}

// refuseNoNode returns the error saying that no node can run an app. alone is true if the job has no other app.
func refuseNoNode(app job.App, alone bool) *Error {
	if app.Hosts == nil || alone {
		return &Error{Code: CodeNoNodes, Text: "no host can take this job now", Remedy: "use other hosts, or drop some requirements"}
	}
	return &Error{Code: CodeNoNodes, Text: fmt.Sprintf("no host can take %s, which may run only on %s",
		programName(app), hostlist.FoldBrief(app.Hosts)), Remedy: "list other hosts for this program"}
}

// refuseSharedNodes returns the error for an app that gets no node because of --no-share-hosts, since earlier apps
// use all nodes that the app could use.
func refuseSharedNodes(apps int, usable *eligibleNodes) *Error {
	failed := &Error{Code: CodeNoNodes, Remedy: "add hosts, or let app contexts share hosts with --share-hosts"}
	if available := len(usable.candidates); apps > available {
		failed.Text = fmt.Sprintf("--no-share-hosts: %d app contexts need %d hosts, but mpiexec can use only %d", apps, apps, available)
		return failed
	}
	failed.Text = fmt.Sprintf("--no-share-hosts: other app contexts use all hosts that are allowed for %s: %s",
		programName(usable.app), hostlist.FoldBrief(usable.names))
	return failed
}

// refuseTooFewSlots returns the error saying that there are too few slots (rule PLACE-4). The error also says how many
// ranks fit, and what the user can do.
func (s *placement) refuseTooFewSlots(a *eligibleNodes, n int) *Error {
	capacity, nodes := a.freeCapacity(), fmt.Sprintf("%s (%s)", text.Count(len(a.candidates), "node"), hostlist.FoldBrief(a.names))
	ranksDoNotFit := s.describeExcess(a, n)
	if most := a.app.PerNode; most > 0 && most*len(a.candidates) < n && a.slots >= n*max(1, a.app.CPUsPerRank) {
		return &Error{Code: CodeNotEnough, Text: fmt.Sprintf("%s: -ppn %d allows %s on %s",
			ranksDoNotFit, most, onlyRanks(capacity), nodes), Remedy: "raise -ppn, or add hosts", WantedRanks: n, FreeRanks: capacity}
	}
	failed := fmt.Sprintf("%s: there are free slots for %s on %s", ranksDoNotFit, onlyRanks(capacity), nodes)
	causes := s.describeLimits(a)
	if causes != "" {
		failed += ", where " + causes
	}
	failed += s.describeConfinements(a.candidates)
	giveSlots, shareCPUs := "give slots (HOST:N)", "share CPUs with --oversubscribe"
	if slices.ContainsFunc(a.candidates, func(i int) bool { return s.candidates[i].Slots > 0 }) {
		giveSlots = "give more slots (HOST:N)"
	}
	switch {
	case isContiguous(s.req):
		shareCPUs = "leave out --contiguous and share CPUs with --oversubscribe"
	case s.req.NoOversubscribe && s.req.LocalOnly:
		shareCPUs = "leave out --nooversubscribe"
	case s.req.NoOversubscribe:
		shareCPUs = "use --oversubscribe instead of --nooversubscribe"
	}
	remedy := "start fewer ranks, add hosts, " + giveSlots + ", or " + shareCPUs
	switch {
	case causes != "" && sum(s.rankBounds(a, n)) < n:
		remedy = "start fewer ranks, add hosts, or raise this limit" // sharing CPUs does not lift a limit
	case slices.ContainsFunc(a.candidates, func(i int) bool { return s.candidates[i].Ranks > 0 }):
		remedy = "start fewer ranks, or add hosts" // other jobs use the CPUs
	}
	return &Error{Code: CodeNotEnough, Text: failed, WantedRanks: n, FreeRanks: capacity, Remedy: remedy}
}

// refuseSoft returns the error saying that there is not enough room even for the smallest number of ranks that -soft
// allows.
func (s *placement) refuseSoft(a *eligibleNodes) *Error {
	least := a.app.Soft[len(a.app.Soft)-1]
	failed := s.refuseTooFewSlots(a, least)
	if len(a.app.Soft) > 1 {
		failed.Text = fmt.Sprintf("-soft allows %s, but even %s", listNumbers(a.app.Soft), failed.Text)
	}
	return failed
}

// listNumbers formats numbers in ascending order. If there are more than 12 numbers, the result contains only the first
// ten and the last.
func listNumbers(descending []int) string {
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

// describeExcess returns a phrase such as "3 ranks do not fit". If the job has several apps, the phrase names the
// program.
func (s *placement) describeExcess(a *eligibleNodes, n int) string {
	ranks := text.Count(n, "rank")
	if len(s.req.Apps) > 1 && len(a.app.Argv) > 0 {
		ranks += " (" + a.app.Argv[0] + ")"
	}
	ranks += a.describeThreads()
	if n == 1 {
		return ranks + " does not fit"
	}
	return ranks + " do not fit"
}

// describeLimits returns a phrase that names limits other than CPUs and says how many ranks they allow, such as
// "maxproc allows 2 on n4".
func (s *placement) describeLimits(a *eligibleNodes) string {
	type cause struct {
		by   string
		most int
	}
	var parts []string
	for _, g := range text.Groups(a.candidates, func(i int) (c cause, name string) {
		c = cause{a.limitNames[i], a.limits[i]}
		if c.by == "" || c.most >= s.ranksInSlots(i, s.freeSlots[i], max(1, a.app.CPUsPerRank)) {
			return c, ""
		}
		return c, s.candidates[i].Name
	}) {
		parts = append(parts, fmt.Sprintf("%s allows %d on %s", g.Common.by, g.Common.most, hostlist.FoldBrief(g.Names)))
	}
	return strings.Join(parts, ", ")
}

// describeThreads returns a phrase that says how many CPUs each rank needs, and which option has requested this. It
// returns "" if each rank needs one CPU.
func (a *eligibleNodes) describeThreads() string {
	switch {
	case a.app.CPUsPerRank <= 1:
		return ""
	case a.app.CPUsPerRankOrigin == "":
		return " of " + text.Count(a.app.CPUsPerRank, "CPU") + " each"
	}
	return " of " + text.Count(a.app.CPUsPerRank, "CPU") + " each (" + a.app.CPUsPerRankOrigin + ")"
}

// refuseByLimits returns the error saying that limits other than CPUs allow fewer than n ranks. allowed is the number
// of ranks that these limits allow.
func (s *placement) refuseByLimits(a *eligibleNodes, n, allowed int) *Error {
	var by []string
	for _, i := range a.candidates {
		by = append(by, a.limitNames[i])
		if s.candidates[i].NoOverbook {
			by = append(by, `overbook = "no"`)
		}
	}
	slices.Sort(by)
	by = slices.DeleteFunc(slices.Compact(by), func(text string) bool { return text == "" })
	ranksDoNotFit, limits, allow := s.describeExcess(a, n), strings.Join(by, " and "), "allows"
	if len(by) != 1 {
		allow = "allow"
	}
	return &Error{Code: CodeLimits, Text: fmt.Sprintf("%s: %s %s %s on %s (%s)", ranksDoNotFit, limits, allow, onlyRanks(allowed),
		text.Count(len(a.candidates), "node"), hostlist.FoldBrief(a.names)), Remedy: "raise this limit, or add hosts", WantedRanks: n, FreeRanks: allowed}
}

// onlyRanks returns "no rank", "only 1 rank", "only 2 ranks" and so on.
func onlyRanks(n int) string {
	if n == 0 {
		return "no rank"
	}
	return "only " + text.Count(n, "rank")
}

// describeConfinement returns a phrase that says why ranks cannot use some cores of a node, for example because mpiexec
// runs under taskset or in a batch job. It returns "" if all cores are usable or the user has written a number of
// slots. reserve is the number of cores that the job leaves free.
func describeConfinement(n job.Node, reserve int) string {
	if n.Slots > 0 {
		return ""
	}
	return n.UsableCPUs(reserve).String()
}

// describeConfinements combines the phrases of describeConfinement for several nodes into the last part of a sentence.
// Each reason appears only once.
func (s *placement) describeConfinements(candidates []int) string {
	var why strings.Builder
	for _, g := range text.Groups(candidates, func(i int) (string, string) {
		return describeConfinement(s.candidates[i].Node, s.req.Reserve), s.candidates[i].Name
	}) {
		if g.Common != "" {
			fmt.Fprintf(&why, "; on %s %s", hostlist.FoldBrief(g.Names), g.Common)
		}
	}
	return why.String()
}

// programName returns the program of an app context as the user has given it, or "" if there is none.
func programName(app job.App) string {
	if len(app.Argv) == 0 {
		return ""
	}
	return app.Argv[0]
}
