package format

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/hostlist"
	"remshell/idset"
	"remshell/job"
	"remshell/text"
)

// A Ledger is what the ledgers of several nodes hold together.
type Ledger struct {
	now   time.Time
	jobs  []liveJob // oldest first
	queue []job.Ticket

	rankStates []rankOnNode // of the ranks of one job, in their order
}

// A rankOnNode is what a rank is doing on a node.
type rankOnNode struct {
	node string
	job.RankState
}

// A rankStatus is the same as programs read it (--status --json).
type rankStatus struct {
	Rank  int     `json:"rank"`
	Node  string  `json:"node"`
	PID   int     `json:"pid,omitempty"`
	State string  `json:"state"`
	CPU   float64 `json:"cpu_seconds"`
	Wait  string  `json:"waits_in,omitempty"`
}

// A liveJob is a job that runs, as programs read it (--ps --json).
type liveJob struct {
	Job          job.ID     `json:"job"`
	ParentJob    job.ID     `json:"inside,omitempty"`
	User         string     `json:"user"`
	UID          int        `json:"uid"`
	Since        time.Time  `json:"since"`
	Ranks        int        `json:"ranks"` // the width
	Exclusive    bool       `json:"exclusive"`
	Idle         bool       `json:"idle"` // none of its ranks lives on any of the nodes seen
	LauncherHost string     `json:"from"`
	LauncherPID  int        `json:"mpiexec_pid,omitempty"` // on From, as its user says
	Command      string     `json:"command"`
	Missing      int        `json:"nodes_not_seen"` // of the job, among those not asked or not reached
	Nodes        []liveNode `json:"nodes"`

	Class string `json:"class,omitempty"`
	jobExtent

	Stopped    bool           `json:"stopped,omitempty"` // all of its ranks that were seen are stopped
	IdleReason job.IdleReason `json:"resting,omitempty"` // why there are none on some, if it is so on purpose

	running     bool           // some rank is not stopped
	nodeIndex   map[string]int // the index of each node in Nodes
	nodeCount   int            // nodes of the job, as far as claims tell
	extentSince time.Time      // since when there is the claim that has told its extent
}

// A jobExtent is what is known, beside its width, of how a job lies on its nodes (aprun.md 7): what nobody said is not shown.
type jobExtent struct {
	Depth   int    `json:"depth,omitempty"`    // CPUs of each rank, more than one
	Shape   int    `json:"shape,omitempty"`    // ranks on each node, exactly
	NodeSet string `json:"node_set,omitempty"` // what was chosen; of a request that waits, what it asks for
}

// cells are those of the columns of extents.
func (e jobExtent) cells() []string {
	return []string{numberUnlessZero(e.Depth), numberUnlessZero(e.Shape), EscapeField(e.NodeSet)}
}

// extentColumns are those columns. A table has them if some row has something there.
var extentColumns = []string{"DEPTH", "SHAPE", "SET"}

// text tells depth and shape behind a width.
func (e jobExtent) text() (text string) {
	if e.Depth > 0 {
		text += fmt.Sprintf(", depth %d", e.Depth)
	}
	if e.Shape > 0 {
		text += fmt.Sprintf(", shape %d", e.Shape)
	}
	return text
}

// numberUnlessZero is a number, if it is one.
func numberUnlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// A liveNode is a node of it.
type liveNode struct {
	Node  string `json:"node"`
	Ranks []int  `json:"ranks"`
	CPUs  []int  `json:"cpus"` // all that the ranks hold, ascending

	GPUs []string `json:"gpus,omitempty"` // their addresses

	Standby bool `json:"spare,omitempty"` // it has no ranks, and is claimed for a restart

	seenRanks map[int]bool // ranks
}

// A queueRow is a request in the queue, as programs read it.
type queueRow struct {
	Position     int       `json:"position"`
	Job          job.ID    `json:"job"`
	User         string    `json:"user"`
	UID          int       `json:"uid"`
	Since        time.Time `json:"since"`
	Ranks        int       `json:"ranks"`
	LauncherHost string    `json:"from"`
	Summary      string    `json:"summary"`

	jobExtent

	MaxSetDelay int       `json:"delay,omitempty"` // seconds that it may insist on a node set at the head
	SetDelayEnd time.Time `json:"until,omitzero"`  // the end of that, if it is known
}

// NewLedger joins the pages of several nodes. Two names of a node may show a job twice: a
// node's claim counts once.
func NewLedger(pages []job.LedgerListing, now time.Time) Ledger {
	l := Ledger{now: now}
	at, told := make(map[job.Key]int), make(map[int]bool)
	for _, p := range pages {
		if p.KeepsQueue {
			l.queue = append(l.queue, p.Tickets...) // of each queue host
		}
		for _, s := range p.States {
			if !told[s.Rank] {
				told[s.Rank] = true
				l.rankStates = append(l.rankStates, rankOnNode{p.Node, s})
			}
		}
		for _, c := range p.Claims {
			i, known := at[c.Key()]
			if !known {
				i, at[c.Key()] = len(l.jobs), len(l.jobs)
				l.jobs = append(l.jobs, liveJob{Job: c.Job, ParentJob: c.ParentJob, User: c.User, UID: c.UID, Since: c.Since,
					Ranks: c.Size, Exclusive: c.Exclusive, Idle: true, LauncherHost: c.LauncherHost, LauncherPID: c.LauncherPID, Command: c.Command, Class: c.Class, nodeIndex: make(map[string]int)})
			}
			l.jobs[i].addClaim(c)
		}
	}
	for i := range l.jobs {
		l.jobs[i].sortNodes()
	}
	slices.SortStableFunc(l.rankStates, func(a, b rankOnNode) int { return cmp.Compare(a.Rank, b.Rank) })
	slices.SortStableFunc(l.jobs, func(a, b liveJob) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job)) })
	return l
}

func (j *liveJob) addClaim(c job.Claim) {
	j.Idle = j.Idle && c.Idle
	j.Stopped = j.Stopped || c.Stopped
	j.running = j.running || !c.Stopped && !c.Idle && c.IdleReason == "" && len(c.Ranks) > 0
	if c.IdleReason == job.IdleRestarting {
		j.IdleReason = job.IdleRestarting
	}
	j.Ranks = max(j.Ranks, c.Size) // a spawn's claim counts the ranks before it
	if c.Since.Before(j.Since) {
		j.Since, j.Command = c.Since, c.Command
	}
	j.setExtent(c)
	i, known := j.nodeIndex[c.Node]
	if !known {
		i = len(j.Nodes)
		j.nodeIndex[c.Node] = i
		j.Nodes = append(j.Nodes, liveNode{Node: c.Node, seenRanks: make(map[int]bool)})
	}
	j.nodeCount = max(j.nodeCount, c.Nodes)
	n := &j.Nodes[i]
	n.Standby = c.IdleReason == job.IdleStandby
	if slices.ContainsFunc(c.Ranks, func(s job.ClaimedRank) bool { return n.seenRanks[s.Rank] }) {
		return // seen by another name of the node
	}
	for _, rank := range c.Ranks {
		if !n.Standby {
			n.seenRanks[rank.Rank] = true
			n.Ranks = append(n.Ranks, rank.Rank)
		}
		n.CPUs = append(n.CPUs, rank.CPUs...)
		n.GPUs = append(n.GPUs, rank.GPUs...)
	}
}

// sortNodes sorts what was added. Adding takes constant time for each rank: another user may have made the claims.
func (j *liveJob) sortNodes() {
	for i := range j.Nodes {
		slices.Sort(j.Nodes[i].Ranks)
		j.Nodes[i].CPUs = idset.New(j.Nodes[i].CPUs...)
	}
	j.Missing = max(0, j.nodeCount-(len(j.Nodes)-len(j.standbyNodes())))
	j.Stopped = j.Stopped && !j.running
}

// setExtent takes the extent of a job from its oldest claim: what was spawned came later. Spares are claimed in a shape of their own.
func (j *liveJob) setExtent(c job.Claim) {
	if c.IdleReason != job.IdleStandby && (j.extentSince.IsZero() || c.Since.Before(j.extentSince)) {
		j.extentSince, j.jobExtent = c.Since, jobExtent{c.CPUsPerRank, c.ExactPerNode, c.NodeSet}
	}
}

func (j *liveJob) nodeNames() []string {
	var names []string
	for _, n := range j.Nodes {
		names = append(names, n.Node)
	}
	return names
}

// countCPUs is how many CPUs the job holds on the nodes that were seen.
func (j *liveJob) countCPUs() int {
	n := 0
	for i := range j.Nodes {
		n += len(j.Nodes[i].CPUs)
	}
	return n
}

// FormatJobs lists the jobs that run, oldest first (--ps).
func (l Ledger) FormatJobs() string {
	if len(l.jobs) == 0 {
		return "no jobs\n"
	}
	t := textTable{}
	row := func(id, user, since, ranks string, extent []string, nodes, cpus, launcher, command string) {
		t.addRow(slices.Concat([]string{id, user, since, ranks}, extent, []string{nodes, cpus, launcher, command})...)
	}
	row("JOB", "USER", "FOR", "RANKS", extentColumns, "NODES", "CPUS", launcherColumn, "COMMAND")
	for i := range l.jobs {
		j := &l.jobs[i]
		row(string(j.Job), formatUser(j.User, j.UID), l.formatAge(j.Since), strconv.Itoa(j.Ranks), j.cells(), hostlist.Fold(j.nodeNames())+j.missingText(),
			strconv.Itoa(j.countCPUs()), j.launcherText(), j.idleText()+j.Command)
	}
	t.dropEmptyColumns(append([]string{launcherColumn}, extentColumns...))
	return t.String()
}

// launcherColumn is the head of the column of mpiexecs.
const launcherColumn = "MPIEXEC"

// launcherText is where the mpiexec of a job runs, with its process ID: "front:4711". It is empty if the job does not say that.
func (j *liveJob) launcherText() string {
	if j.LauncherPID == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", EscapeField(j.LauncherHost), j.LauncherPID)
}

// idleText says that a job holds what nobody uses (TRUST-16), and why if it says so (survive.md SV-2); or that it
// is suspended.
func (j *liveJob) idleText() string {
	switch {
	case j.Stopped:
		return "(suspended) "
	case j.Idle && j.IdleReason.IsKnown():
		return "(" + string(j.IdleReason) + ") "
	case j.Idle:
		return "(idle) "
	}
	if spares := j.standbyNodes(); len(spares) > 0 {
		return "(spare: " + hostlist.Fold(spares) + ") "
	}
	return ""
}

// standbyNodes are the nodes that the job has for a restart.
func (j *liveJob) standbyNodes() (names []string) {
	for _, n := range j.Nodes {
		if n.Standby {
			names = append(names, n.Node)
		}
	}
	return names
}

// missingText says that the job has nodes which were not looked at.
func (j *liveJob) missingText() string {
	if j.Missing == 0 {
		return ""
	}
	return fmt.Sprintf("+%d", j.Missing)
}

// FormatQueue lists the requests that wait, the next one first (--queue).
func (l Ledger) FormatQueue() string {
	if len(l.queue) == 0 {
		return "nobody waits\n"
	}
	t := textTable{}
	row := func(position, id, user, since, ranks string, extent []string, from, command string) {
		t.addRow(slices.Concat([]string{position, id, user, since, ranks}, extent, []string{from, command})...)
	}
	row("POSITION", "JOB", "USER", "FOR", "RANKS", extentColumns, "FROM", "COMMAND")
	for _, w := range l.queueRows() {
		row(strconv.Itoa(w.Position), string(w.Job), formatUser(w.User, w.UID), l.formatAge(w.Since), w.widthText(), w.cells(), w.LauncherHost, w.delayText()+w.Summary)
	}
	t.dropEmptyColumns(extentColumns)
	return t.String()
}

// widthText is how many ranks a request wants.
func (w queueRow) widthText() string { return cmp.Or(numberUnlessZero(w.Ranks), "all") }

// delayText says that a request waits for a better node set, and for how long.
func (w queueRow) delayText() string {
	switch {
	case !w.SetDelayEnd.IsZero():
		return fmt.Sprintf("(for a node set until %s) ", w.SetDelayEnd.Format(time.TimeOnly))
	case w.MaxSetDelay > 0:
		return fmt.Sprintf("(at the head for a node set up to %d s) ", w.MaxSetDelay)
	}
	return ""
}

func (l Ledger) queueRows() []queueRow {
	waiters := []queueRow{}
	for i, q := range l.queue {
		waiters = append(waiters, queueRow{i + 1, q.Job, q.User, q.UID, q.Since, q.Size, q.LauncherHost, q.Summary, ticketExtent(q), q.MaxSetDelay, q.SetDelayEnd})
	}
	return waiters
}

// setText names the node sets that a request asks for.
func (w queueRow) setText() string {
	if w.NodeSet == "" {
		return ""
	}
	return ", for node set " + EscapeField(w.NodeSet)
}

// ticketExtent is that of a ticket.
func ticketExtent(t job.Ticket) jobExtent {
	e := jobExtent{Shape: t.ExactPerNode, NodeSet: t.NodeSet}
	if t.CPUs > 1 {
		e.Depth = t.CPUs
	}
	return e
}

// FormatStatus tells all of one job, be it running or waiting; false if there is none. Another
// user may have given his the same name; then both are told, unless a user is named.
func (l Ledger) FormatStatus(ref job.JobRef) (string, bool) {
	var texts []string
	for _, w := range l.queueRows() {
		if w.Job == ref.Job && ref.MatchesUser(w.User, w.UID) {
			texts = append(texts, fmt.Sprintf("job      %s waits, position %d of %d%s\nuser     %s\nranks    %s%s\nfor      %s\nfrom     %s\ncommand  %s%s\n",
				EscapeField(string(w.Job)), w.Position, len(l.queue), w.setText(), formatUser(w.User, w.UID), w.widthText(), w.text(), l.formatAge(w.Since), EscapeField(w.LauncherHost), w.delayText(), EscapeSentence(w.Summary)))
		}
	}
	for i := range l.jobs {
		if l.jobs[i].Job == ref.Job && ref.MatchesUser(l.jobs[i].User, l.jobs[i].UID) {
			texts = append(texts, l.jobs[i].formatStatus(l))
		}
	}
	if len(l.rankStates) > 0 {
		texts = append(texts, l.formatRankStates())
	}
	return strings.Join(texts, "\n"), len(texts) > 0
}

// formatRankStates is the table of what each rank is doing, as -timeout prints it.
func (l Ledger) formatRankStates() string {
	var t textTable
	t.addRow("rank", "node", "pid", "state", "CPU", "waits in")
	connected := slices.ContainsFunc(l.rankStates, rankOnNode.HasConnected)
	for _, s := range l.rankStates {
		t.addRow(strconv.Itoa(s.Rank), s.node, numberUnlessZero(s.PID), EscapeField(s.Describe(connected)), fmt.Sprintf("%.2f s", s.CPU.Seconds()), EscapeField(s.WaitChannel))
	}
	return t.String()
}

func (l Ledger) rankStatuses() (all []rankStatus) {
	connected := slices.ContainsFunc(l.rankStates, rankOnNode.HasConnected)
	for _, s := range l.rankStates {
		all = append(all, rankStatus{s.Rank, s.node, s.PID, s.Describe(connected), s.CPU.Seconds(), s.WaitChannel})
	}
	return all
}

func (j *liveJob) formatStatus(l Ledger) string {
	var b strings.Builder
	state, from := "runs", EscapeField(j.LauncherHost)
	if j.Stopped {
		state = "is suspended"
	}
	if j.LauncherPID > 0 {
		from += fmt.Sprintf(", pid %d", j.LauncherPID)
	}
	fmt.Fprintf(&b, "job      %s %s%s\nuser     %s\nranks    %d%s\nfor      %s, since %s\nfrom     %s\ncommand  %s\n", EscapeField(string(j.Job)), state, j.extraText(),
		formatUser(j.User, j.UID), j.Ranks, j.text(), l.formatAge(j.Since), j.Since.Format(time.RFC3339), from, EscapeSentence(j.Command))
	t := textTable{indent: "  "}
	for _, n := range j.Nodes {
		what := labelNumbers("rank", n.Ranks)
		if n.Standby {
			what = "spare"
		}
		t.addRow(n.Node, what, labelNumbers("CPU", n.CPUs), formatGPUAddresses(n.GPUs))
	}
	b.WriteString(t.String())
	if j.Missing > 0 {
		fmt.Fprintf(&b, "  and %s, not asked\n", text.Count(j.Missing, "more node"))
	}
	return b.String()
}

// formatGPUAddresses names GPUs.
func formatGPUAddresses(gpus []string) string {
	switch len(gpus) {
	case 0:
		return ""
	case 1:
		return "GPU " + gpus[0]
	}
	return "GPUs " + strings.Join(gpus, " ")
}

func (j *liveJob) extraText() string {
	text := ""
	if j.Exclusive {
		text += ", nobody else on its nodes"
	}
	if j.Class != "" {
		text += ", class " + EscapeField(j.Class)
	}
	if j.NodeSet != "" {
		text += ", on node set " + EscapeField(j.NodeSet)
	}
	if j.ParentJob != "" {
		text += ", inside of " + EscapeField(string(j.ParentJob))
	}
	return text
}

// FormatJSON is all of the ledger, or what concerns one job, for programs.
func (l Ledger) FormatJSON(only job.JobRef) string {
	jobs, waiting := l.jobs, l.queueRows()
	if only.Job != "" {
		jobs = slices.DeleteFunc(slices.Clone(jobs), func(j liveJob) bool { return j.Job != only.Job || !only.MatchesUser(j.User, j.UID) })
		waiting = slices.DeleteFunc(waiting, func(w queueRow) bool { return w.Job != only.Job || !only.MatchesUser(w.User, w.UID) })
	}
	text, err := json.Marshal(struct {
		Version int        `json:"version"`
		Jobs    []liveJob  `json:"jobs"`
		Waiting []queueRow `json:"waiting"`

		Ranks []rankStatus `json:"ranks,omitempty"` // what those of one job are doing
	}{1, append([]liveJob{}, jobs...), waiting, l.rankStatuses()})
	if err != nil { // there is nothing in it that could fail
		panic(err)
	}
	return string(EscapeJSON(text)) + "\n"
}

// formatAge is how long ago, to the second; clocks of other machines may be ahead of ours.
func (l Ledger) formatAge(since time.Time) string {
	return job.FormatClock(max(0, l.now.Sub(since)).Truncate(time.Second))
}

// formatUser is who a job says its user is, and always the number that the ledger vouches for,
// where the name is no help.
func formatUser(name string, uid int) string {
	if name == "" {
		return strconv.Itoa(uid)
	}
	return fmt.Sprintf("%s(%d)", EscapeField(name), uid)
}
