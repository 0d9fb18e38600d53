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

// A runRecord is the book of a run: who was started when, and who consumed what.
type runRecord struct {
	rankStarts    []startRecord             // in the order in which they were told
	startFailures map[int]string            // why ranks could not be started
	orphans       map[int][]job.OrphanUsage // by node of the plan
	keptSessions  map[int][]string          // likewise: directories of Open MPI's files
	maxSamples    map[int]job.UsageSample   // the most that was seen of each rank
	leftovers     []job.Leftover            // by ranks that did not end well

	mu           sync.Mutex // guards the rest
	ranksStarted time.Time  // when ranks were let go
}

// A startRecord is what an account keeps of a start. There are as many as a job has ranks, so it is
// without what others know: the plan has the rank's node.
type startRecord struct {
	after     time.Duration // since ranks were let go
	rank, pid int32
	unbound   bool // it is bound to no CPU of its own, whatever the plan says
}

func newRunRecord() *runRecord {
	return &runRecord{ranksStarted: time.Now(), startFailures: make(map[int]string), orphans: make(map[int][]job.OrphanUsage), keptSessions: make(map[int][]string), maxSamples: make(map[int]job.UsageSample)}
}

// addStart notes a rank that runs, or does not.
func (a *runRecord) addStart(n *jobNode, m *wire.Started) {
	s := a.describeStart(n.Name(), m)
	a.rankStarts = append(a.rankStarts, startRecord{s.SinceStart, int32(s.Rank), int32(s.PID), m.Unbound})
	if s.Err != "" {
		a.startFailures[s.Rank] = s.Err
	}
}

// allStarts are the starts that were told, in their order.
func (a *runRecord) allStarts(p rankNodes) iter.Seq[job.RankStart] {
	return func(yield func(job.RankStart) bool) {
		for _, s := range a.rankStarts {
			rank := int(s.rank)
			if !yield(job.RankStart{Rank: rank, PID: int(s.pid), Node: p.nodes[p.nodeOfRank[rank]], SinceStart: s.after, Err: a.startFailures[rank]}) {
				return
			}
		}
	}
}

// describeStart is what is known of a rank that has just been started. The readers of the connections
// call it, too.
func (a *runRecord) describeStart(node string, m *wire.Started) job.RankStart {
	a.mu.Lock()
	defer a.mu.Unlock()
	return job.RankStart{Rank: m.Rank, PID: m.PID, Node: node, SinceStart: time.Since(a.ranksStarted), Err: m.Err}
}

// ranksReleased notes that so many ranks are let go.
func (a *runRecord) ranksReleased(ranks int) {
	a.rankStarts = make([]startRecord, 0, ranks)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ranksStarted = time.Now()
}

// totals counts in the exits what orphans have consumed, and sums up by node.
func (a *runRecord) totals(p rankNodes, exits []*job.Exit) (all []*job.Exit, hosts []job.NodeTotal) {
	all = a.addOrphans(exits)
	byRank := make([]*job.Exit, len(p.nodeOfRank))
	for _, e := range all {
		byRank[e.Rank] = e
	}
	for i, name := range p.nodes {
		total := job.NodeTotal{Node: name, PeakRank: -1, KeptSessions: a.keptSessions[i]}
		for _, o := range a.orphans[i] {
			if o.Rank < 0 || byRank[o.Rank] == nil { // nobody knows whose
				total.Usage.Add(o.Usage)
			}
		}
		hosts = append(hosts, total)
	}
	for rank, node := range p.nodeOfRank {
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

// addOrphans are exits in which that is counted what orphans of the ranks have consumed.
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
			with := *e // supervision's own does not change
			with.Usage.Add(more)
			all[i] = &with
		}
	}
	return all
}

// rankProfile gathers what is known of a rank for the report.
func (f *runningJob) rankProfile(state *supervise.State, rank int) supervise.RankProfile {
	var p supervise.RankProfile
	loosened := false
	if i := slices.IndexFunc(f.usage.rankStarts, func(s startRecord) bool { return int(s.rank) == rank }); i >= 0 {
		p.PID, loosened = int(f.usage.rankStarts[i].pid), f.usage.rankStarts[i].unbound
	}
	n, plan, app := f.rankPlan(rank)
	if n == nil {
		return p
	}
	p.Program = truncate(strings.Join(app.Argv, " "))
	if plan.CPUs != nil && !loosened {
		p.BoundCPUs, _, _ = strings.Cut(n.Probe.Topology.DescribeCPUs(plan.CPUs), " [")
	}
	words := f.streams.StderrTail(rank)
	p.LastStderrLine = lastLine(words)
	if exit := state.Exit(rank); exit != nil {
		p.Hint = f.exitHint(exit, n, words)
	}
	return p
}

// rankPlan is the plan of a rank, its node, and the section of the command line or command
// of a spawn that it belongs to; nil: there is no such rank.
func (f *runningJob) rankPlan(rank int) (*jobNode, job.RankPlan, job.App) {
	g, number := f.groupOf(rank)
	if g == nil {
		return nil, job.RankPlan{}, job.App{}
	}
	for i, np := range g.plan.Nodes {
		for _, r := range np.Ranks {
			if r.Rank == number {
				return g.nodes[i], r, g.apps[r.App]
			}
		}
	}
	return nil, job.RankPlan{}, job.App{}
}

// exitHint is the evidence for the reason of an end, of which there may be none (REP-3).
func (f *runningJob) exitHint(exit *job.Exit, n *jobNode, words string) string {
	switch {
	case exit.Hint != "":
		return exit.Hint
	case exit.Status() == job.Signal(syscall.SIGILL).Status(): // also of what it has started
		return otherCPUHint(n, f.nodes)
	case exit.Signal == 0 && exit.Code == 127:
		if name := missingLibrary(words); name != "" {
			return fmt.Sprintf("shared library %s is missing on %s", name, n.Name())
		}
	}
	return ""
}

// otherCPUHint says so if a node has another type of CPU than others of the job: a program
// may have been built for theirs.
func otherCPUHint(n *jobNode, nodes []*jobNode) string {
	for _, other := range nodes {
		if a, b := n.Probe.Model, other.Probe.Model; a != b && a != "" && b != "" {
			return fmt.Sprintf("the CPU of %s is %s, that of %s is %s", n.Name(), a, other.Name(), b)
		}
	}
	return ""
}

// missingLibrary finds the name of a library in what the dynamic loader of glibc or musl
// says when there is none.
func missingLibrary(words string) string {
	for _, before := range []string{"error while loading shared libraries: ", "Error loading shared library "} {
		if _, after, found := strings.Cut(words, before); found {
			name, _, _ := strings.Cut(after, ":")
			return name
		}
	}
	return ""
}

// colorSequence is what switches a terminal's colours (ECMA-48, SGR).
var colorSequence = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// lastLine returns the last line of a text that contains a letter, for a report. Frames such as
// "=====" and "***" say nothing. If no line has a letter, it returns the last one that is not blank.
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

// truncate shortens a text for a line of a report.
func truncate(text string) string {
	const most = 80
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
