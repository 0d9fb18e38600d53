package show

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

	states []placedState // of the ranks of one job, in their order
}

// A placedState is what a rank is doing on a node.
type placedState struct {
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
	Job       job.ID     `json:"job"`
	Inside    job.ID     `json:"inside,omitempty"`
	User      string     `json:"user"`
	UID       int        `json:"uid"`
	Since     time.Time  `json:"since"`
	Ranks     int        `json:"ranks"` // the width
	Exclusive bool       `json:"exclusive"`
	Idle      bool       `json:"idle"` // none of its ranks lives on any of the nodes seen
	From      string     `json:"from"`
	Launcher  int        `json:"mpiexec_pid,omitempty"` // on From, as its user says
	Command   string     `json:"command"`
	Missing   int        `json:"nodes_not_seen"` // of the job, among those not asked or not reached
	Nodes     []liveNode `json:"nodes"`

	Class string `json:"class,omitempty"`
	extent

	Stopped bool        `json:"stopped,omitempty"` // all of its ranks that were seen are stopped
	Resting job.Resting `json:"resting,omitempty"` // why there are none on some, if it is so on purpose

	running  bool           // some rank is not stopped
	at       map[string]int // the index of each node in Nodes
	size     int            // nodes of the job, as far as claims tell
	extended time.Time      // since when there is the claim that has told its extent
}

// An extent is what is known, beside its width, of how a job lies on its nodes (aprun.md 7): what nobody said is not shown.
type extent struct {
	Depth   int    `json:"depth,omitempty"`    // CPUs of each rank, more than one
	Shape   int    `json:"shape,omitempty"`    // ranks on each node, exactly
	NodeSet string `json:"node_set,omitempty"` // what was chosen; of a request that waits, what it asks for
}

// cells are those of the columns of extents.
func (e extent) cells() []string {
	return []string{numeral(e.Depth), numeral(e.Shape), Word(e.NodeSet)}
}

// extents are those columns. A table has them if some row has something there.
var extents = []string{"DEPTH", "SHAPE", "SET"}

// words tells depth and shape behind a width.
func (e extent) words() (text string) {
	if e.Depth > 0 {
		text += fmt.Sprintf(", depth %d", e.Depth)
	}
	if e.Shape > 0 {
		text += fmt.Sprintf(", shape %d", e.Shape)
	}
	return text
}

// numeral is a number, if it is one.
func numeral(n int) string {
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

	Spare bool `json:"spare,omitempty"` // it has no ranks, and is claimed for a restart

	seen map[int]bool // ranks
}

// A queueRow is a request in the queue, as programs read it.
type queueRow struct {
	Position int       `json:"position"`
	Job      job.ID    `json:"job"`
	User     string    `json:"user"`
	UID      int       `json:"uid"`
	Since    time.Time `json:"since"`
	Ranks    int       `json:"ranks"`
	From     string    `json:"from"`
	Summary  string    `json:"summary"`

	extent

	Delay int       `json:"delay,omitempty"` // seconds that it may insist on a node set at the head
	Until time.Time `json:"until,omitzero"`  // the end of that, if it is known
}

// NewLedger joins the pages of several nodes. Two names of a node may show a job twice: a
// node's claim counts once.
func NewLedger(pages []job.Page, now time.Time) Ledger {
	l := Ledger{now: now}
	at, told := make(map[job.Whose]int), make(map[int]bool)
	for _, p := range pages {
		if p.Queue {
			l.queue = append(l.queue, p.Tickets...) // of each queue host
		}
		for _, s := range p.States {
			if !told[s.Rank] {
				told[s.Rank] = true
				l.states = append(l.states, placedState{p.Node, s})
			}
		}
		for _, c := range p.Claims {
			i, known := at[c.Whose()]
			if !known {
				i, at[c.Whose()] = len(l.jobs), len(l.jobs)
				l.jobs = append(l.jobs, liveJob{Job: c.Job, Inside: c.Inside, User: c.User, UID: c.UID, Since: c.Since,
					Ranks: c.Size, Exclusive: c.Exclusive, Idle: true, From: c.From, Launcher: c.Launcher, Command: c.Command, Class: c.Class, at: make(map[string]int)})
			}
			l.jobs[i].add(c)
		}
	}
	for i := range l.jobs {
		l.jobs[i].finish()
	}
	slices.SortStableFunc(l.states, func(a, b placedState) int { return cmp.Compare(a.Rank, b.Rank) })
	slices.SortStableFunc(l.jobs, func(a, b liveJob) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Job, b.Job)) })
	return l
}

func (j *liveJob) add(c job.Claim) {
	j.Idle = j.Idle && c.Idle
	j.Stopped = j.Stopped || c.Stopped
	j.running = j.running || !c.Stopped && !c.Idle && c.Resting == "" && len(c.Ranks) > 0
	if c.Resting == job.Restarting {
		j.Resting = job.Restarting
	}
	j.Ranks = max(j.Ranks, c.Size) // a spawn's claim counts the ranks before it
	if c.Since.Before(j.Since) {
		j.Since, j.Command = c.Since, c.Command
	}
	j.extend(c)
	i, known := j.at[c.Node]
	if !known {
		i = len(j.Nodes)
		j.at[c.Node] = i
		j.Nodes = append(j.Nodes, liveNode{Node: c.Node, seen: make(map[int]bool)})
	}
	j.size = max(j.size, c.Nodes)
	n := &j.Nodes[i]
	n.Spare = c.Resting == job.Spare
	if slices.ContainsFunc(c.Ranks, func(s job.ClaimedRank) bool { return n.seen[s.Rank] }) {
		return // seen by another name of the node
	}
	for _, rank := range c.Ranks {
		if !n.Spare {
			n.seen[rank.Rank] = true
			n.Ranks = append(n.Ranks, rank.Rank)
		}
		n.CPUs = append(n.CPUs, rank.CPUs...)
		n.GPUs = append(n.GPUs, rank.GPUs...)
	}
}

// finish sorts what was added. Adding takes constant time for each rank: another user may have made the claims.
func (j *liveJob) finish() {
	for i := range j.Nodes {
		slices.Sort(j.Nodes[i].Ranks)
		j.Nodes[i].CPUs = idset.Of(j.Nodes[i].CPUs...)
	}
	j.Missing = max(0, j.size-(len(j.Nodes)-len(j.spares())))
	j.Stopped = j.Stopped && !j.running
}

// extend takes the extent of a job from its oldest claim: what was spawned came later. Spares are claimed in a shape of their own.
func (j *liveJob) extend(c job.Claim) {
	if c.Resting != job.Spare && (j.extended.IsZero() || c.Since.Before(j.extended)) {
		j.extended, j.extent = c.Since, extent{c.Depth, c.Shape, c.NodeSet}
	}
}

func (j *liveJob) names() []string {
	var names []string
	for _, n := range j.Nodes {
		names = append(names, n.Node)
	}
	return names
}

// cpus is how many CPUs the job holds on the nodes that were seen.
func (j *liveJob) cpus() int {
	n := 0
	for i := range j.Nodes {
		n += len(j.Nodes[i].CPUs)
	}
	return n
}

// Jobs lists the jobs that run, oldest first (--ps).
func (l Ledger) Jobs() string {
	if len(l.jobs) == 0 {
		return "no jobs\n"
	}
	t := table{}
	row := func(id, user, since, ranks string, extent []string, nodes, cpus, launcher, command string) {
		t.add(slices.Concat([]string{id, user, since, ranks}, extent, []string{nodes, cpus, launcher, command})...)
	}
	row("JOB", "USER", "FOR", "RANKS", extents, "NODES", "CPUS", mpiexec, "COMMAND")
	for i := range l.jobs {
		j := &l.jobs[i]
		row(string(j.Job), user(j.User, j.UID), l.age(j.Since), strconv.Itoa(j.Ranks), j.cells(), hostlist.Fold(j.names())+j.more(),
			strconv.Itoa(j.cpus()), j.launcher(), j.idle()+j.Command)
	}
	t.leaveOut(append([]string{mpiexec}, extents...))
	return t.String()
}

// mpiexec is the head of the column of mpiexecs.
const mpiexec = "MPIEXEC"

// launcher is where the mpiexec of a job runs, with its process ID: "front:4711". It is empty if the job does not say that.
func (j *liveJob) launcher() string {
	if j.Launcher == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", Word(j.From), j.Launcher)
}

// idle says that a job holds what nobody uses (TRUST-16), and why if it says so (survive.md SV-2); or that it
// is suspended.
func (j *liveJob) idle() string {
	switch {
	case j.Stopped:
		return "(suspended) "
	case j.Idle && j.Resting.Known():
		return "(" + string(j.Resting) + ") "
	case j.Idle:
		return "(idle) "
	}
	if spares := j.spares(); len(spares) > 0 {
		return "(spare: " + hostlist.Fold(spares) + ") "
	}
	return ""
}

// spares are the nodes that the job has for a restart.
func (j *liveJob) spares() (names []string) {
	for _, n := range j.Nodes {
		if n.Spare {
			names = append(names, n.Node)
		}
	}
	return names
}

// more says that the job has nodes which were not looked at.
func (j *liveJob) more() string {
	if j.Missing == 0 {
		return ""
	}
	return fmt.Sprintf("+%d", j.Missing)
}

// Queue lists the requests that wait, the next one first (--queue).
func (l Ledger) Queue() string {
	if len(l.queue) == 0 {
		return "nobody waits\n"
	}
	t := table{}
	row := func(position, id, user, since, ranks string, extent []string, from, command string) {
		t.add(slices.Concat([]string{position, id, user, since, ranks}, extent, []string{from, command})...)
	}
	row("POSITION", "JOB", "USER", "FOR", "RANKS", extents, "FROM", "COMMAND")
	for _, w := range l.waiters() {
		row(strconv.Itoa(w.Position), string(w.Job), user(w.User, w.UID), l.age(w.Since), w.width(), w.cells(), w.From, w.delays()+w.Summary)
	}
	t.leaveOut(extents)
	return t.String()
}

// width is how many ranks a request wants.
func (w queueRow) width() string { return cmp.Or(numeral(w.Ranks), "all") }

// delays says that a request waits for a better node set, and for how long.
func (w queueRow) delays() string {
	switch {
	case !w.Until.IsZero():
		return fmt.Sprintf("(for a node set until %s) ", w.Until.Format(time.TimeOnly))
	case w.Delay > 0:
		return fmt.Sprintf("(at the head for a node set up to %d s) ", w.Delay)
	}
	return ""
}

func (l Ledger) waiters() []queueRow {
	waiters := []queueRow{}
	for i, q := range l.queue {
		waiters = append(waiters, queueRow{i + 1, q.Job, q.User, q.UID, q.Since, q.Size, q.From, q.Summary, wantedExtent(q), q.Delay, q.Until})
	}
	return waiters
}

// set names the node sets that a request asks for.
func (w queueRow) set() string {
	if w.NodeSet == "" {
		return ""
	}
	return ", for node set " + Word(w.NodeSet)
}

// wantedExtent is that of a ticket.
func wantedExtent(t job.Ticket) extent {
	e := extent{Shape: t.Shape, NodeSet: t.NodeSet}
	if t.CPUs > 1 {
		e.Depth = t.CPUs
	}
	return e
}

// Status tells all of one job, be it running or waiting; false if there is none. Another
// user may have given his the same name; then both are told, unless a user is named.
func (l Ledger) Status(ref job.Ref) (string, bool) {
	var texts []string
	for _, w := range l.waiters() {
		if w.Job == ref.Job && ref.Of(w.User, w.UID) {
			texts = append(texts, fmt.Sprintf("job      %s waits, position %d of %d%s\nuser     %s\nranks    %s%s\nfor      %s\nfrom     %s\ncommand  %s%s\n",
				Word(string(w.Job)), w.Position, len(l.queue), w.set(), user(w.User, w.UID), w.width(), w.words(), l.age(w.Since), Word(w.From), w.delays(), Clean(w.Summary)))
		}
	}
	for i := range l.jobs {
		if l.jobs[i].Job == ref.Job && ref.Of(l.jobs[i].User, l.jobs[i].UID) {
			texts = append(texts, l.jobs[i].status(l))
		}
	}
	if len(l.states) > 0 {
		texts = append(texts, l.doing())
	}
	return strings.Join(texts, "\n"), len(texts) > 0
}

// doing is the table of what each rank is doing, as -timeout prints it.
func (l Ledger) doing() string {
	var t table
	t.add("rank", "node", "pid", "state", "CPU", "waits in")
	connected := slices.ContainsFunc(l.states, placedState.Connected)
	for _, s := range l.states {
		t.add(strconv.Itoa(s.Rank), s.node, numeral(s.PID), Word(s.Doing(connected)), fmt.Sprintf("%.2f s", s.CPU.Seconds()), Word(s.Sleep))
	}
	return t.String()
}

func (l Ledger) rankStatus() (all []rankStatus) {
	connected := slices.ContainsFunc(l.states, placedState.Connected)
	for _, s := range l.states {
		all = append(all, rankStatus{s.Rank, s.node, s.PID, s.Doing(connected), s.CPU.Seconds(), s.Sleep})
	}
	return all
}

func (j *liveJob) status(l Ledger) string {
	var b strings.Builder
	state, from := "runs", Word(j.From)
	if j.Stopped {
		state = "is suspended"
	}
	if j.Launcher > 0 {
		from += fmt.Sprintf(", pid %d", j.Launcher)
	}
	fmt.Fprintf(&b, "job      %s %s%s\nuser     %s\nranks    %d%s\nfor      %s, since %s\nfrom     %s\ncommand  %s\n", Word(string(j.Job)), state, j.traits(),
		user(j.User, j.UID), j.Ranks, j.words(), l.age(j.Since), j.Since.Format(time.RFC3339), from, Clean(j.Command))
	t := table{indent: "  "}
	for _, n := range j.Nodes {
		what := labelled("rank", n.Ranks)
		if n.Spare {
			what = "spare"
		}
		t.add(n.Node, what, labelled("CPU", n.CPUs), addresses(n.GPUs))
	}
	b.WriteString(t.String())
	if j.Missing > 0 {
		fmt.Fprintf(&b, "  and %s, not asked\n", text.Count(j.Missing, "more node"))
	}
	return b.String()
}

// addresses names GPUs.
func addresses(gpus []string) string {
	switch len(gpus) {
	case 0:
		return ""
	case 1:
		return "GPU " + gpus[0]
	}
	return "GPUs " + strings.Join(gpus, " ")
}

func (j *liveJob) traits() string {
	text := ""
	if j.Exclusive {
		text += ", nobody else on its nodes"
	}
	if j.Class != "" {
		text += ", class " + Word(j.Class)
	}
	if j.NodeSet != "" {
		text += ", on node set " + Word(j.NodeSet)
	}
	if j.Inside != "" {
		text += ", inside of " + Word(string(j.Inside))
	}
	return text
}

// JSON is all of the ledger, or what concerns one job, for programs.
func (l Ledger) JSON(only job.Ref) string {
	jobs, waiting := l.jobs, l.waiters()
	if only.Job != "" {
		jobs = slices.DeleteFunc(slices.Clone(jobs), func(j liveJob) bool { return j.Job != only.Job || !only.Of(j.User, j.UID) })
		waiting = slices.DeleteFunc(waiting, func(w queueRow) bool { return w.Job != only.Job || !only.Of(w.User, w.UID) })
	}
	text, err := json.Marshal(struct {
		Version int        `json:"version"`
		Jobs    []liveJob  `json:"jobs"`
		Waiting []queueRow `json:"waiting"`

		Ranks []rankStatus `json:"ranks,omitempty"` // what those of one job are doing
	}{1, append([]liveJob{}, jobs...), waiting, l.rankStatus()})
	if err != nil { // there is nothing in it that could fail
		panic(err)
	}
	return string(JSON(text)) + "\n"
}

// age is how long ago, to the second; clocks of other machines may be ahead of ours.
func (l Ledger) age(since time.Time) string {
	return job.Clock(max(0, l.now.Sub(since)).Truncate(time.Second))
}

// user is who a job says its user is, and always the number that the ledger vouches for,
// where the name is no help.
func user(name string, uid int) string {
	if name == "" {
		return strconv.Itoa(uid)
	}
	return fmt.Sprintf("%s(%d)", Word(name), uid)
}
