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
	"remshell/job/column"
	"remshell/job/turns"
	"remshell/text"
)

// A Ledger holds the combined contents of the ledgers of several nodes. The ledger of a node is the directory
// in which its jobs and their CPUs are recorded.
type Ledger struct {
	now   time.Time
	jobs  []liveJob // oldest first
	queue []job.Ticket

	rankStates []rankOnNode // of one job's ranks, by rank
	stacks     *job.StackReport
	settings   []nodeSettings
}

// nodeSettings is the JSON form of the run-time settings of a node. Only nodes with such settings are listed.
type nodeSettings struct {
	Node         string    `json:"node"`
	DrainedSince time.Time `json:"drained_since,omitzero"`
	DrainReason  string    `json:"drain_reason,omitempty"`
	Users        []string  `json:"users,omitempty"`
	Groups       []string  `json:"groups,omitempty"`
	MaxProcs     *int      `json:"maxproc,omitempty"`
	Slice        float64   `json:"slice_seconds,omitempty"` // of gangs

	lines []string // a text for each setting, without the node's name
}

// Stacks returns the stacks of one job's ranks, or nil if they were not requested.
func (l Ledger) Stacks() *job.StackReport { return l.stacks }

// A rankOnNode is the state of a rank together with the name of the rank's node.
type rankOnNode struct {
	node string
	job.RankState
}

// A rankStatus is the JSON form of a rank's state (--status --json).
type rankStatus struct {
	Rank  int     `json:"rank"`
	Node  string  `json:"node"`
	PID   int     `json:"pid,omitempty"`
	State string  `json:"state"`
	CPU   float64 `json:"cpu_seconds"`
	Wait  string  `json:"waits_in,omitempty"`
}

// A liveJob is a running job in the JSON form of --ps --json.
type liveJob struct {
	Job          job.ID     `json:"job"`
	ParentJob    job.ID     `json:"parent_job,omitempty"`
	User         string     `json:"user"`
	UID          int        `json:"uid"`
	Since        time.Time  `json:"since"`
	Ranks        int        `json:"ranks"` // the number of ranks
	Exclusive    bool       `json:"exclusive"`
	Idle         bool       `json:"idle"` // none of its ranks runs on the nodes that were read
	LauncherHost string     `json:"launcher_host"`
	LauncherPID  int        `json:"mpiexec_pid,omitempty"` // on LauncherHost, according to its user
	Command      string     `json:"command"`
	Missing      int        `json:"nodes_not_seen"` // number of its nodes whose ledgers were not read
	Nodes        []liveNode `json:"nodes"`

	Class string `json:"class,omitempty"`
	jobExtent

	Stopped    bool           `json:"stopped,omitempty"`     // all its ranks on the nodes that were read are stopped
	IdleReason job.IdleReason `json:"idle_reason,omitempty"` // why nodes have no running ranks, if that is on purpose

	Reported map[string]int64 `json:"reported,omitempty"` // values of column.Shown that are known, by Column.Name
	Gang     *turns.View      `json:"gang,omitempty"`     // how it shares CPUs in turns, as far as ledgers were read

	reported    []int64        // job.Claim.Reported of all claims together
	nodeIndex   map[string]int // the index of each node in Nodes
	nodeCount   int            // number of its nodes, according to the claims
	extentSince time.Time      // time of the claim that its extent was taken from
	gang        *job.Gang      // of its oldest claim; nil: it is no gang
	gangJobs    []job.GangJob  // the gangs that share CPUs with it
	suspended   bool           // a node reports another reason than turns to keep its ranks stopped
}

// A jobExtent describes the layout of a job on its nodes, apart from the number of ranks (aprun.md 7). A zero field
// is unknown and not shown.
type jobExtent struct {
	Depth   int    `json:"depth,omitempty"`    // CPUs of each rank, more than one
	Shape   int    `json:"shape,omitempty"`    // ranks on each node, exactly
	NodeSet string `json:"node_set,omitempty"` // the chosen node sets; for a waiting request, those requested
}

// cells returns the table cells of a job for the columns in extentColumns.
func (e jobExtent) cells() []string {
	return []string{numberUnlessZero(e.Depth), numberUnlessZero(e.Shape), EscapeField(e.NodeSet)}
}

// extentColumns are the column names for a jobExtent. A table contains only the columns in which some row has a value.
var extentColumns = []string{"DEPTH", "SHAPE", "SET"}

// text returns a string with the depth and shape of a job, which is printed after the number of ranks.
func (e jobExtent) text() (text string) {
	if e.Depth > 0 {
		text += fmt.Sprintf(", depth %d", e.Depth)
	}
	if e.Shape > 0 {
		text += fmt.Sprintf(", shape %d", e.Shape)
	}
	return text
}

// numberUnlessZero returns n as a string, or "" if n is 0.
func numberUnlessZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// A liveNode is one node of a running job in the JSON form of --ps --json.
type liveNode struct {
	Node  string `json:"node"`
	Ranks []int  `json:"ranks"`
	CPUs  []int  `json:"cpus"` // CPUs of all ranks, ascending

	GPUs []string `json:"gpus,omitempty"` // their addresses

	Standby bool `json:"standby,omitempty"` // a standby node: without ranks, claimed for a restart

	seenRanks map[int]bool // by rank
}

// A queueRow is a waiting request in the JSON form of --queue --json.
type queueRow struct {
	Position     int       `json:"position"`
	Job          job.ID    `json:"job"`
	User         string    `json:"user"`
	UID          int       `json:"uid"`
	Since        time.Time `json:"since"`
	Ranks        int       `json:"ranks"`
	LauncherHost string    `json:"launcher_host"`
	Summary      string    `json:"summary"`

	jobExtent

	MaxSetDelay int       `json:"delay,omitempty"` // seconds that it may wait for a better node set at the head of the queue
	SetDelayEnd time.Time `json:"until,omitzero"`  // when that ends, if known
}

// NewLedger merges the ledgers of several nodes. pages contains one listing for each ledger. If a node is listed under
// two names, each of its claims is still counted once.
func NewLedger(pages []job.LedgerListing, now time.Time) Ledger {
	l := Ledger{now: now}
	indexOf, seenRank := make(map[job.Key]int), make(map[int]bool)
	for _, p := range pages {
		if p.KeepsQueue {
			l.queue = append(l.queue, p.Tickets...) // each queue host has tickets of its own
		}
		if p.Stacks != nil {
			l.stacks = p.Stacks
		}
		if lines := p.Settings.Lines(); lines != nil {
			s := p.Settings
			l.settings = append(l.settings, nodeSettings{p.Node, s.Drain.Since, s.Drain.Reason, s.Allow.Users, s.Allow.Groups, s.Allow.MaxProcs, s.Slice.Length.Seconds(), lines})
		}
		for _, s := range p.States {
			if !seenRank[s.Rank] {
				seenRank[s.Rank] = true
				l.rankStates = append(l.rankStates, rankOnNode{p.Node, s})
			}
		}
		for _, c := range p.Claims {
			i, known := indexOf[c.Key()]
			if !known {
				i, indexOf[c.Key()] = len(l.jobs), len(l.jobs)
				l.jobs = append(l.jobs, liveJob{Job: c.Job, ParentJob: c.ParentJob, User: c.User, UID: c.UID, Since: c.Since,
					Ranks: c.Size, Exclusive: c.Exclusive, LauncherHost: c.LauncherHost, LauncherPID: c.LauncherPID, Command: c.Command, Class: c.Class, nodeIndex: make(map[string]int)})
			}
			l.jobs[i].addClaim(c)
			if g := l.jobs[i].gang; g != nil {
				changed := *g
				changed.Slice, _ = p.Settings.Slice.At(now, g.Slice)
				l.jobs[i].gang = &changed
			}
		}
		job.ForEachShared(p.Claims, func(c, other *job.Claim) {
			j := &l.jobs[indexOf[c.Key()]]
			if of := (job.GangJob{Job: other.Job, Party: other.Gang.Party}); !slices.Contains(j.gangJobs, of) {
				j.gangJobs = append(j.gangJobs, of)
			}
		})
	}
	for i := range l.jobs {
		l.jobs[i].sortNodes()
		l.jobs[i].setReported()
		l.jobs[i].setGang(now)
	}
	slices.SortStableFunc(l.rankStates, func(a, b rankOnNode) int { return cmp.Compare(a.Rank, b.Rank) })
	slices.SortStableFunc(l.jobs, func(a, b liveJob) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job)) })
	return l
}

// addClaim adds a claim of the job. It ignores a claim for ranks that were already added to the node.
func (j *liveJob) addClaim(c job.Claim) {
	if c.IdleReason == job.IdleRestarting {
		j.IdleReason = job.IdleRestarting
	}
	j.Ranks = max(j.Ranks, c.Size) // Size of a spawn's claim includes the ranks before it
	if c.Since.Before(j.Since) {
		j.Since, j.Command = c.Since, c.Command
	}
	j.setExtent(c)
	j.suspended = j.suspended || c.Suspended
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
		return // already added under another name of the node
	}
	j.reported = column.Combine(j.reported, c.Reported)
	for _, rank := range c.Ranks {
		if !n.Standby {
			n.seenRanks[rank.Rank] = true
			n.Ranks = append(n.Ranks, rank.Rank)
		}
		n.CPUs = append(n.CPUs, rank.CPUs...)
		n.GPUs = append(n.GPUs, rank.GPUs...)
	}
}

// sortNodes sorts the ranks and CPUs of each node. It is called only once, after all claims have been added: sorting
// after each claim would take too long if another user has made very many claims.
func (j *liveJob) sortNodes() {
	for i := range j.Nodes {
		slices.Sort(j.Nodes[i].Ranks)
		j.Nodes[i].CPUs = idset.New(j.Nodes[i].CPUs...)
	}
	j.Missing = max(0, j.nodeCount-(len(j.Nodes)-len(j.standbyNodes())))
}

// setReported sets Idle, Stopped and Reported from j.reported, the values that helpers report with claims. It is called
// when all claims have been added.
func (j *liveJob) setReported() {
	state := column.State.Of(j.reported)
	j.Idle, j.Stopped = state == column.Idle, state == column.Suspended
	for _, c := range column.Shown() {
		if value := c.Of(j.reported); value != column.None {
			if j.Reported == nil {
				j.Reported = make(map[string]int64)
			}
			j.Reported[c.Name] = value
		}
	}
}

// reportedCells returns the job's table cells for the columns that column.Shown returns. Helpers report the values of
// these columns with their claims.
func (j *liveJob) reportedCells() (cells []string) {
	for _, c := range column.Shown() {
		cell := ""
		if value, known := j.Reported[c.Name]; known {
			cell = c.Text(value)
		}
		cells = append(cells, cell)
	}
	return cells
}

// setExtent sets the layout of a job from its oldest claim, because later claims may belong to spawned ranks. It
// ignores claims of standby nodes (held in reserve for a restart), since these have another layout.
func (j *liveJob) setExtent(c job.Claim) {
	if c.IdleReason != job.IdleStandby && (j.extentSince.IsZero() || c.Since.Before(j.extentSince)) {
		j.extentSince, j.jobExtent, j.gang = c.Since, jobExtent{c.CPUsPerRank, c.ExactPerNode, c.NodeSet}, c.Gang
	}
}

// setGang records how the job takes turns on CPUs. A gang whose ranks are stopped, but not suspended, is waiting for
// its time slice if it must not run in the current one. It also counts as waiting until its first slice has passed, and
// in the first second of its own slice, because the clocks of hosts differ.
func (j *liveJob) setGang(now time.Time) {
	if j.gang == nil {
		return
	}
	j.Gang = turns.NewView(*j.gang, j.gangJobs)
	const moment = time.Second
	j.Gang.Waits = j.Stopped && !j.suspended && (!j.Gang.RunsAt(now) || !j.Gang.RunsAt(now.Add(-moment)) || now.Sub(j.Since) < j.gang.Slice+2*moment)
}

// gangCells returns the table cells of a job for the columns in gangColumns.
func (j *liveJob) gangCells() []string {
	if j.Gang == nil {
		return []string{"", ""}
	}
	return []string{strconv.Itoa(j.Gang.Party), j.Gang.Percent()}
}

// gangColumns are the column names for gangs. A table has these columns only if one of the jobs is a gang.
var gangColumns = []string{"PARTY", "SHARE"}

func (j *liveJob) nodeNames() []string {
	var names []string
	for _, n := range j.Nodes {
		names = append(names, n.Node)
	}
	return names
}

// countCPUs returns the number of CPUs that the job has claimed on the nodes whose ledgers were read.
func (j *liveJob) countCPUs() int {
	n := 0
	for i := range j.Nodes {
		n += len(j.Nodes[i].CPUs)
	}
	return n
}

// FormatJobs lists the running jobs, oldest first, and the settings of nodes (--ps).
func (l Ledger) FormatJobs() string {
	if len(l.jobs) == 0 {
		return "no jobs\n" + l.formatSettings()
	}
	var reportedColumns []string
	for _, c := range column.Shown() {
		reportedColumns = append(reportedColumns, c.Title)
	}
	t := textTable{}
	row := func(id, user, since, ranks string, extent []string, nodes, cpus string, gang, reported []string, launcher, command string) {
		t.addRow(slices.Concat([]string{id, user, since, ranks}, extent, []string{nodes, cpus}, gang, reported, []string{launcher, command})...)
	}
	row("JOB", "USER", "FOR", "RANKS", extentColumns, "NODES", "CPUS", gangColumns, reportedColumns, launcherColumn, "COMMAND")
	for i := range l.jobs {
		j := &l.jobs[i]
		row(string(j.Job), formatUser(j.User, j.UID), l.formatAge(j.Since), strconv.Itoa(j.Ranks), j.cells(), hostlist.Fold(j.nodeNames())+j.missingText(),
			strconv.Itoa(j.countCPUs()), j.gangCells(), j.reportedCells(), j.launcherText(), j.idleText()+j.Command)
	}
	t.dropEmptyColumns(slices.Concat([]string{launcherColumn}, extentColumns, gangColumns, reportedColumns))
	return t.String() + l.formatSettings()
}

// formatSettings returns a line for each run-time setting of nodes. Nodes with equal settings share a line.
func (l Ledger) formatSettings() string {
	nodes := make(map[string][]string)
	var lines []string // in the order of the nodes
	for _, n := range l.settings {
		for _, line := range n.lines {
			if nodes[line] == nil {
				lines = append(lines, line)
			}
			nodes[line] = append(nodes[line], n.Node)
		}
	}
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "%s %s\n", EscapeField(hostlist.Fold(nodes[line])), EscapeSentence(line))
	}
	return b.String()
}

// launcherColumn is the name of the column that shows the host and process ID of a job's mpiexec.
const launcherColumn = "MPIEXEC"

// launcherText returns the host and process ID of a job's mpiexec, such as "front:4711". It returns "" if the job's
// claims do not contain them.
func (j *liveJob) launcherText() string {
	if j.LauncherPID == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", EscapeField(j.LauncherHost), j.LauncherPID)
}

// idleText returns a note about a job's claims, or "". The note says that the job waits for its time slice, that it is
// suspended, that its claims are idle and why (rules TRUST-16, SV-2), or which standby nodes it has. The first of these
// that applies is returned.
func (j *liveJob) idleText() string {
	switch {
	case j.Gang != nil && j.Gang.Waits:
		return "(waiting for its slice) "
	case j.Stopped:
		return "(suspended) "
	case j.Idle && j.IdleReason.IsKnown():
		return "(" + string(j.IdleReason) + ") "
	case j.Idle:
		return "(idle) "
	}
	if standby := j.standbyNodes(); len(standby) > 0 {
		return "(standby: " + hostlist.Fold(standby) + ") "
	}
	return ""
}

// standbyNodes returns the job's standby nodes, which are held in reserve for a restart.
func (j *liveJob) standbyNodes() (names []string) {
	for _, n := range j.Nodes {
		if n.Standby {
			names = append(names, n.Node)
		}
	}
	return names
}

// missingText returns "+N" if the ledgers of N nodes of the job were not read. It returns "" if all were read.
func (j *liveJob) missingText() string {
	if j.Missing == 0 {
		return ""
	}
	return fmt.Sprintf("+%d", j.Missing)
}

// FormatQueue lists the waiting requests in the order in which they will be served (--queue).
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

// widthText returns the number of ranks that a request asks for, or "all" if it asks for one rank per slot.
func (w queueRow) widthText() string { return cmp.Or(numberUnlessZero(w.Ranks), "all") }

// delayText returns a note on how long the request waits for a better node set. It returns "" if the request does
// not wait for a node set.
func (w queueRow) delayText() string {
	switch {
	case !w.SetDelayEnd.IsZero():
		return fmt.Sprintf("(waits until %s for a better node set) ", w.SetDelayEnd.Format(time.TimeOnly))
	case w.MaxSetDelay > 0:
		return fmt.Sprintf("(may wait %d s for a better node set when it is first in the queue) ", w.MaxSetDelay)
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

// setText returns a string that names the node set of the request, such as ", for node set switchA". It returns "" if
// the request names no node set.
func (w queueRow) setText() string {
	if w.NodeSet == "" {
		return ""
	}
	return ", for node set " + EscapeField(w.NodeSet)
}

// ticketExtent returns the depth, ranks per node and node sets that a ticket requests.
func ticketExtent(t job.Ticket) jobExtent {
	e := jobExtent{Shape: t.ExactPerNode, NodeSet: t.NodeSet}
	if t.CPUs > 1 {
		e.Depth = t.CPUs
	}
	return e
}

// FormatStatus describes one job, running or waiting. It returns false if there is no such job. If jobs of two
// users have the same ID, it describes both, unless ref names a user.
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

// formatRankStates returns a table that says what each rank is doing.
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
	switch {
	case j.Gang != nil && j.Gang.Waits:
		state = "waits for its slice"
	case j.Stopped:
		state = "is suspended"
	}
	if j.LauncherPID > 0 {
		from += fmt.Sprintf(", pid %d", j.LauncherPID)
	}
	fmt.Fprintf(&b, "job      %s %s%s\nuser     %s\nranks    %d%s\nfor      %s, since %s\nfrom     %s\ncommand  %s\n", EscapeField(string(j.Job)), state, j.extraText(),
		formatUser(j.User, j.UID), j.Ranks, j.text(), l.formatAge(j.Since), j.Since.Format(time.RFC3339), from, EscapeSentence(j.Command))
	if j.Gang != nil {
		fmt.Fprintf(&b, "gang     %s\n", EscapeSentence(j.Gang.String()))
	}
	t := textTable{indent: "  "}
	for _, n := range j.Nodes {
		what := labelNumbers("rank", n.Ranks)
		if n.Standby {
			what = "standby"
		}
		t.addRow(n.Node, what, labelNumbers("CPU", n.CPUs), formatGPUAddresses(n.GPUs))
	}
	b.WriteString(t.String())
	if j.Missing > 0 {
		fmt.Fprintf(&b, "  and %s, which did not report\n", text.Count(j.Missing, "more node"))
	}
	return b.String()
}

// formatGPUAddresses returns the PCI addresses of GPUs after the word GPU or GPUs. It returns "" if there are none.
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
		text += ", alone on its nodes"
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

// FormatJSON returns the JSON of the jobs and requests to which ref refers. If ref is the zero value, it returns
// all of them.
func (l Ledger) FormatJSON(ref job.JobRef) string {
	jobs, waiting := l.jobs, l.queueRows()
	if ref.Job != "" {
		jobs = slices.DeleteFunc(slices.Clone(jobs), func(j liveJob) bool { return j.Job != ref.Job || !ref.MatchesUser(j.User, j.UID) })
		waiting = slices.DeleteFunc(waiting, func(w queueRow) bool { return w.Job != ref.Job || !ref.MatchesUser(w.User, w.UID) })
	}
	text, err := json.Marshal(struct {
		Version int        `json:"version"`
		Jobs    []liveJob  `json:"jobs"`
		Waiting []queueRow `json:"waiting"`

		Ranks    []rankStatus     `json:"ranks,omitempty"` // states of one job's ranks
		Stacks   *job.StackReport `json:"stacks,omitempty"`
		Settings []nodeSettings   `json:"settings,omitempty"` // of nodes at run time
	}{1, append([]liveJob{}, jobs...), waiting, l.rankStatuses(), l.stacks, l.settings})
	if err != nil { // impossible for these types
		panic(err)
	}
	return string(EscapeJSON(text)) + "\n"
}

// formatAge returns the time that has elapsed since a moment in the past, as HH:MM:SS. If the moment is in the future,
// it returns 00:00:00, because the clocks of other hosts may be ahead.
func (l Ledger) formatAge(since time.Time) string {
	return job.FormatClock(max(0, l.now.Sub(since)).Truncate(time.Second))
}

// formatUser returns a user name and the user ID. The name comes from the job and may be false. The ID cannot be
// forged, because it is the owner of a file. If name is empty, formatUser returns only the ID.
func formatUser(name string, uid int) string {
	if name == "" {
		return strconv.Itoa(uid)
	}
	return fmt.Sprintf("%s(%d)", EscapeField(name), uid)
}
