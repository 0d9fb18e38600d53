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

// An account is the book of a run: who was started when, and who consumed what.
type account struct {
	starts  []rankStart          // in the order in which they were told
	failed  map[int]string       // why ranks could not be started
	orphans map[int][]job.Orphan // by node of the plan
	stay    map[int][]string     // likewise: directories of Open MPI's files
	samples map[int]job.Sample   // the most that was seen of each rank
	left    []job.Remnant        // by ranks that did not end well

	mu    sync.Mutex // guards the rest
	began time.Time  // when ranks were let go
}

// A rankStart is what an account keeps of a start. There are as many as a job has ranks, so it is
// without what others know: the plan has the rank's node.
type rankStart struct {
	after     time.Duration // since ranks were let go
	rank, pid int32
	loosened  bool // it is bound to no CPU of its own, whatever the plan says
}

func newAccount() *account {
	return &account{began: time.Now(), failed: make(map[int]string), orphans: make(map[int][]job.Orphan), stay: make(map[int][]string), samples: make(map[int]job.Sample)}
}

// started notes a rank that runs, or does not.
func (a *account) started(n *member, m *wire.Started) {
	s := a.start(n.Name(), m)
	a.starts = append(a.starts, rankStart{s.After, int32(s.Rank), int32(s.PID), m.Loosened})
	if s.Err != "" {
		a.failed[s.Rank] = s.Err
	}
}

// told are the starts that were told, in their order.
func (a *account) told(p whereabouts) iter.Seq[job.Start] {
	return func(yield func(job.Start) bool) {
		for _, s := range a.starts {
			rank := int(s.rank)
			if !yield(job.Start{Rank: rank, PID: int(s.pid), Node: p.nodes[p.of[rank]], After: s.after, Err: a.failed[rank]}) {
				return
			}
		}
	}
}

// start is what is known of a rank that has just been started. The readers of the connections
// call it, too.
func (a *account) start(node string, m *wire.Started) job.Start {
	a.mu.Lock()
	defer a.mu.Unlock()
	return job.Start{Rank: m.Rank, PID: m.PID, Node: node, After: time.Since(a.began), Err: m.Err}
}

// begin notes that so many ranks are let go.
func (a *account) begin(ranks int) {
	a.starts = make([]rankStart, 0, ranks)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began = time.Now()
}

// settle counts in the exits what orphans have consumed, and sums up by node.
func (a *account) settle(p whereabouts, exits []*job.Exit) (all []*job.Exit, hosts []job.Total) {
	all = a.withOrphans(exits)
	byRank := make([]*job.Exit, len(p.of))
	for _, e := range all {
		byRank[e.Rank] = e
	}
	for i, name := range p.nodes {
		total := job.Total{Node: name, Peak: -1, Sessions: a.stay[i]}
		for _, o := range a.orphans[i] {
			if o.Rank < 0 || byRank[o.Rank] == nil { // nobody knows whose
				total.Usage.Add(o.Usage)
			}
		}
		hosts = append(hosts, total)
	}
	for rank, node := range p.of {
		total, e := &hosts[node], byRank[rank]
		total.Ranks++
		if e == nil {
			continue
		}
		total.Ended++
		if e.Usage.MaxRSS > total.Usage.MaxRSS {
			total.Peak = rank
		}
		total.Usage.Add(e.Usage)
	}
	return all, hosts
}

// withOrphans are exits in which that is counted what orphans of the ranks have consumed.
func (a *account) withOrphans(exits []*job.Exit) []*job.Exit {
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

// profile gathers what is known of a rank for the report.
func (f *fleet) profile(state *supervise.State, rank int) supervise.Profile {
	var p supervise.Profile
	loosened := false
	if i := slices.IndexFunc(f.account.starts, func(s rankStart) bool { return int(s.rank) == rank }); i >= 0 {
		p.PID, loosened = int(f.account.starts[i].pid), f.account.starts[i].loosened
	}
	n, plan, app := f.rankPlan(rank)
	if n == nil {
		return p
	}
	p.Program = brief(strings.Join(app.Argv, " "))
	if plan.CPUs != nil && !loosened {
		p.Bound, _, _ = strings.Cut(n.Probe.Topology.Describe(plan.CPUs), " [")
	}
	words := f.streams.LastWords(rank)
	p.LastWords = lastLine(words)
	if exit := state.Exit(rank); exit != nil {
		p.Hint = f.hint(exit, n, words)
	}
	return p
}

// rankPlan is the plan of a rank, its node, and the section of the command line or command
// of a spawn that it belongs to; nil: there is no such rank.
func (f *fleet) rankPlan(rank int) (*member, job.RankPlan, job.App) {
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

// hint is the evidence for the reason of an end, of which there may be none (REP-3).
func (f *fleet) hint(exit *job.Exit, n *member, words string) string {
	switch {
	case exit.Hint != "":
		return exit.Hint
	case exit.Status() == job.Signal(syscall.SIGILL).Status(): // also of what it has started
		return foreignCPU(n, f.nodes)
	case exit.Signal == 0 && exit.Code == 127:
		if name := missingLibrary(words); name != "" {
			return fmt.Sprintf("shared library %s is missing on %s", name, n.Name())
		}
	}
	return ""
}

// foreignCPU says so if a node has another type of CPU than others of the job: a program
// may have been built for theirs.
func foreignCPU(n *member, nodes []*member) string {
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

// colour is what switches a terminal's colours (ECMA-48, SGR).
var colour = regexp.MustCompile("\x1b\\[[0-9;:]*m")

// lastLine returns the last line of a text that contains a letter, for a report. Frames such as
// "=====" and "***" say nothing. If no line has a letter, it returns the last one that is not blank.
func lastLine(text string) string {
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(colour.ReplaceAllString(line, ""))
		if strings.ContainsFunc(line, unicode.IsLetter) || line != "" && !strings.ContainsFunc(last, unicode.IsLetter) {
			last = line
		}
	}
	return brief(last)
}

// brief shortens a text for a line of a report.
func brief(text string) string {
	const most = 80
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
