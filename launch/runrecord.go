package launch

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"remshell/job"
	"remshell/launch/supervise"
	"remshell/wire"
)

// A runRecord records when each rank started, which resources orphans (processes that outlived their rank) used, and
// which session directories of Open MPI were kept.
type runRecord struct {
	rankStarts    []startRecord             // in the order in which starts were reported
	startFailures map[int]string            // by rank, why it could not be started
	orphans       map[int][]job.OrphanUsage // by node
	keptSessions  map[int][]string          // by node: directories of Open MPI's session files that were kept

	mu           sync.Mutex // guards the fields below
	ranksStarted time.Time  // when the ranks were released
}

// A startRecord describes the start of one rank. It is small, because a job may have 640,000 ranks. It leaves out the
// rank's node, which the plan contains.
type startRecord struct {
	after     time.Duration // since the ranks were released
	rank, pid int32
	unbound   bool // the rank is not bound, whatever the plan says
}

func newRunRecord() *runRecord {
	return &runRecord{ranksStarted: time.Now(), startFailures: make(map[int]string), orphans: make(map[int][]job.OrphanUsage), keptSessions: make(map[int][]string)}
}

// addStart records that a rank has started, or why it could not be started.
func (a *runRecord) addStart(n *Node, m *wire.Started) {
	s := a.describeStart(n.Name(), m)
	a.rankStarts = append(a.rankStarts, startRecord{s.SinceStart, int32(s.Rank), int32(s.PID), m.Unbound})
	if s.Err != "" {
		a.startFailures[s.Rank] = s.Err
	}
}

// allStarts returns the recorded starts in the order in which they were reported.
func (a *runRecord) allStarts(p RankNodes) iter.Seq[job.RankStart] {
	return func(yield func(job.RankStart) bool) {
		for _, s := range a.rankStarts {
			rank := int(s.rank)
			if !yield(job.RankStart{Rank: rank, PID: int(s.pid), Node: p.Nodes[p.NodeOfRank[rank]], SinceStart: s.after, Err: a.startFailures[rank]}) {
				return
			}
		}
	}
}

// describeStart describes a rank's start, or its failed start, that a node has just reported. Any goroutine may call
// it.
func (a *runRecord) describeStart(node string, m *wire.Started) job.RankStart {
	a.mu.Lock()
	defer a.mu.Unlock()
	return job.RankStart{Rank: m.Rank, PID: m.PID, Node: node, SinceStart: time.Since(a.ranksStarted), Err: m.Err}
}

// ranksReleased records the current time as the time at which mpiexec allowed the ranks to start. ranks is the number
// of ranks.
func (a *runRecord) ranksReleased(ranks int) {
	a.rankStarts = make([]startRecord, 0, ranks)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ranksStarted = time.Now()
}

// totals returns the exits of the ranks and the usage of each node. The usage of a rank includes its orphans
// (processes that have outlived it).
func (a *runRecord) totals(p RankNodes, exits []*job.Exit) (all []*job.Exit, hosts []job.NodeTotal) {
	all = a.addOrphans(exits)
	byRank := make([]*job.Exit, len(p.NodeOfRank))
	for _, e := range all {
		byRank[e.Rank] = e
	}
	for i, name := range p.Nodes {
		total := job.NodeTotal{Node: name, PeakRank: -1, KeptSessions: a.keptSessions[i]}
		for _, o := range a.orphans[i] {
			if o.Rank < 0 || byRank[o.Rank] == nil { // it cannot be attributed to a rank
				total.Usage.Add(o.Usage)
			}
		}
		hosts = append(hosts, total)
	}
	for rank, node := range p.NodeOfRank {
		total, e := &hosts[node], byRank[rank]
		total.Ranks++
		if e == nil {
			continue
		}
		total.EndedRanks++
		if e.Usage.MaxRSS > total.Usage.MaxRSS {
			total.PeakRank = rank
		}
		total.Usage.Add(e.Usage)
	}
	return all, hosts
}

// addOrphans returns copies of exits in which each rank's usage includes its orphans. An orphan is a process that
// a rank has started and that has outlived the rank.
func (a *runRecord) addOrphans(exits []*job.Exit) []*job.Exit {
	used := make(map[int]job.Usage)
	for _, left := range a.orphans {
		for _, o := range left {
			sum := used[o.Rank]
			sum.Add(o.Usage)
			used[o.Rank] = sum
		}
	}
	if len(used) == 0 {
		return exits
	}
	all := slices.Clone(exits)
	for i, e := range all {
		if more, has := used[e.Rank]; has {
			sum := *e // exits belong to package supervise and must not change
			sum.Usage.Add(more)
			all[i] = &sum
		}
	}
	return all
}

// rankProfile returns what a report shows about a rank in addition to how the rank ended.
func (j *Job) rankProfile(state *supervise.State, rank int) supervise.RankProfile {
	var p supervise.RankProfile
	unbound := false
	if i := slices.IndexFunc(j.record.rankStarts, func(s startRecord) bool { return int(s.rank) == rank }); i >= 0 {
		p.PID, unbound = int(j.record.rankStarts[i].pid), j.record.rankStarts[i].unbound
	}
	n, plan, app := j.RankPlan(rank)
	if n == nil {
		return p
	}
	p.Program = truncate(strings.Join(app.Argv, " "))
	if plan.CPUs != nil && !unbound {
		p.BoundCPUs, _, _ = strings.Cut(n.Probe.Topology.DescribeCPUs(plan.CPUs), " [")
	}
	stderr := j.Streams.StderrTail(rank)
	p.LastStderrLine = lastLine(stderr)
	if exit := state.Exit(rank); exit != nil {
		p.Hint = j.exitHint(exit, n, stderr)
	}
	return p
}

// RankPlan returns the node, the plan and the app context of a rank. The node is nil if there is no such rank.
func (j *Job) RankPlan(rank int) (*Node, job.RankPlan, job.App) {
	g, number := j.GroupOf(rank)
	if g == nil {
		return nil, job.RankPlan{}, job.App{}
	}
	for i, np := range g.Plan.Nodes {
		for _, r := range np.Ranks {
			if r.Rank == number {
				return g.Nodes[i], r, g.Apps[r.App]
			}
		}
	}
	return nil, job.RankPlan{}, job.App{}
}

// exitHint returns a likely reason why a rank ended, or "" (rule REP-3).
func (j *Job) exitHint(exit *job.Exit, n *Node, stderr string) string {
	switch {
	case exit.Hint != "":
		return exit.Hint
	case exit.Status() == job.Signal(syscall.SIGILL).Status(): // also if a child of the rank died of it
		return otherCPUHint(n, j.Nodes)
	case exit.Signal == 0 && exit.Code == 127:
		if name := missingLibrary(stderr); name != "" {
			return fmt.Sprintf("shared library %s is missing on %s", name, n.Name())
		}
	}
	return ""
}

// otherCPUHint returns a hint that names another node with a different CPU model, or "". The program may have been
// built for that model.
func otherCPUHint(n *Node, nodes []*Node) string {
	for _, other := range nodes {
		if a, b := n.Probe.Model, other.Probe.Model; a != b && a != "" && b != "" {
			return fmt.Sprintf("the CPU of %s is %s, but the CPU of %s is %s", n.Name(), a, other.Name(), b)
		}
	}
	return ""
}

// loaderPatterns are the messages of the dynamic loaders of glibc and musl that precede the name of a missing library.
var loaderPatterns = []string{"error while loading shared libraries: ", "Error loading shared library "}

// missingLibrary returns the library that the dynamic loader of glibc or musl reports as missing,
// or "".
func missingLibrary(stderr string) string {
	for _, before := range loaderPatterns {
		if _, after, found := strings.Cut(stderr, before); found {
			name, _, _ := strings.Cut(after, ":")
			return name
		}
	}
	return ""
}

// colorSequence matches escape sequences that set a terminal's colours (ECMA-48, SGR).
var colorSequence = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// lastLine returns the last line that contains a letter. It skips decorative lines such as "=====" and "***". If no
// line contains a letter, it returns the last non-blank line.
func lastLine(text string) string {
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(colorSequence.ReplaceAllString(line, ""))
		if strings.ContainsFunc(line, unicode.IsLetter) || line != "" && !strings.ContainsFunc(last, unicode.IsLetter) {
			last = line
		}
	}
	return truncate(last)
}

// truncate shortens text to the maximum length of one line of a report.
func truncate(text string) string {
	const most = 80
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
