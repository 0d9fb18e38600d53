/*
Package plan makes every decision that can be made before a process starts.

	Request + Snapshot --> Unify --> sort.Nodes --> place --> Mapping --> Plan

It is a pure function: equal arguments give an equal plan, today and in a test. The
rules are those of placement.md; section numbers in comments are its own. Claims of
other jobs, pinning and the queue are not here yet (see doc/design.md).
*/
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/sort"
)

// An Error says why there is no plan. Its code is one of placement.md 1.5.
type Error struct {
	Code string
	Text string
	Way  string // what the user can do
}

func (e *Error) Error() string { return e.Text }

// Hint is what to do about it.
func (e *Error) Hint() string { return e.Way }

// Codes of errors and notes.
const (
	NotEnough = "not-enough-cpus"
	NoNodes   = "no-candidates"
	Limits    = "limit-reached"
	Overbook  = "overbooked"
	SameNode  = "same-node"
)

// Make turns what was asked and what was seen into what will be done. The error is
// an *Error.
func Make(req job.Request, snap job.Snapshot) (job.Plan, error) {
	mode, err := sort.Parse(req.Sort)
	if err != nil {
		return job.Plan{}, &Error{"bad-sort", err.Error(), ""}
	}
	nodes, kept, notes := Unify(snap.Nodes)
	req.Apps = rename(req.Apps, kept)
	nodes = sort.Nodes(nodes, mode)
	if len(nodes) == 0 {
		return job.Plan{}, &Error{NoNodes, "no node is left to start on", ""}
	}
	seats, over, err := place(req, nodes)
	if err != nil {
		return job.Plan{Notes: notes}, err
	}
	if over && req.Nameless {
		notes = append(notes, job.Note{Code: Overbook, Text: fmt.Sprintf(
			"%d ranks share the %s of this machine; name hosts with slots (localhost:%d) to say so yourself",
			len(seats), count(nodes[0].Topology.Units(), "CPU"), len(seats))})
	}
	p := job.Plan{Job: req.Job, Size: len(seats), Notes: notes}
	p.Nodes = assign(seats, nodes, snap.Nodes)
	p.Mapping = Mapping(nodesOf(seats))
	return p, nil
}

// Unify joins nodes that turned out to be one machine (HOST-8): the first name stays,
// slots and limits that were written down add up. kept has the name that stays for
// each name.
func Unify(nodes []job.Node) (joined []job.Node, kept map[string]string, notes []job.Note) {
	kept = make(map[string]string)
	same := make([][]string, len(nodes)) // names, by place in joined
	first := make(map[string]int)        // place in joined, by identity
	for _, n := range nodes {
		i, known := first[n.Identity]
		if !known || n.Identity == "" {
			i = len(joined)
			first[n.Identity] = i
			joined = append(joined, n)
		} else {
			joined[i].Slots += n.Slots
			joined[i].MaxSlots += n.MaxSlots
		}
		kept[n.Name] = joined[i].Name
		same[i] = append(same[i], n.Name)
	}
	for i, n := range joined {
		who := strings.Join(same[i], " and ")
		if len(same[i]) > 2 {
			who = hostlist.Fold(same[i])
		}
		if len(same[i]) > 1 {
			notes = append(notes, job.Note{Code: SameNode, Node: n.Name,
				Text: fmt.Sprintf("%s are one machine; it counts once, as %s", who, n.Name)})
		}
	}
	return joined, kept, notes
}

// rename gives each app's hosts the names that Unify has kept. A host that was not
// reached keeps its own.
func rename(apps []job.App, kept map[string]string) []job.App {
	apps = slices.Clone(apps)
	for i := range apps {
		apps[i].Hosts = slices.Clone(apps[i].Hosts)
		for k, name := range apps[i].Hosts {
			apps[i].Hosts[k] = cmp.Or(kept[name], name)
		}
	}
	return apps
}

// A seat is where one rank goes: an index into the nodes in filling order, and the
// app it runs.
type seat struct{ node, app int }

// place gives every rank its seat (section 5), apps in their order on one state
// (5.7). over tells that ranks share CPUs.
func place(req job.Request, nodes []job.Node) (seats []seat, over bool, err error) {
	used := make([]int, len(nodes))
	for a, app := range req.Apps {
		area := newArea(req, app, nodes, used)
		if len(area.index) == 0 {
			return nil, false, &Error{NoNodes, fmt.Sprintf("no node is left for %s: it is to run on %s only",
				strings.Join(app.Argv[:min(1, len(app.Argv))], ""), hostlist.Fold(app.Hosts)), ""}
		}
		n := app.N
		if n == 0 {
			n = area.all()
		}
		shares, shared, err := area.shares(req, n)
		if err != nil {
			return nil, false, err
		}
		over = over || shared
		for i, share := range shares {
			node := area.index[i]
			used[node] += share
			for range share {
				seats = append(seats, seat{node, a})
			}
		}
	}
	return seats, over, nil
}

// An area is the nodes one app may use, in filling order.
type area struct {
	index []int // into all nodes
	names []string
	slots []int // of the whole node
	room  []int // that is left of them, within the limits
	bound []int // most ranks, overbooked or not; unbounded if there is no limit
	limit int   // ranks of this app per node; 0: none
}

const unbounded = -1

func newArea(req job.Request, app job.App, nodes []job.Node, used []int) area {
	a := area{limit: cmp.Or(app.PerNode, req.PerNode)}
	for i, n := range nodes {
		if app.Hosts != nil && !slices.Contains(app.Hosts, n.Name) {
			continue
		}
		slots := cmp.Or(n.Slots, n.Topology.Units(), 1)
		room, bound := max(0, slots-used[i]), unbounded
		if n.MaxSlots > 0 {
			bound = max(0, n.MaxSlots-used[i])
		}
		if a.limit > 0 && (bound == unbounded || a.limit < bound) {
			bound = a.limit
		}
		if bound != unbounded {
			room = min(room, bound)
		}
		a.bound = append(a.bound, bound)
		a.index = append(a.index, i)
		a.names = append(a.names, n.Name)
		a.slots = append(a.slots, slots)
		a.room = append(a.room, room)
	}
	return a
}

// all is the number of ranks when the user gave none (PLACE-1): the limit on every
// node, else every slot that is left.
func (a area) all() int {
	if a.limit > 0 {
		return a.limit * len(a.index)
	}
	return max(1, sum(a.room))
}

// shares says how many of n ranks each node gets: the nodes are filled one after
// the other while nobody has to share a CPU (5.2), else evenly by slots (5.4).
func (a area) shares(req job.Request, n int) (shares []int, over bool, err error) {
	unused := sum(a.room)
	if n <= unused {
		shares = make([]int, len(a.room))
		for i, room := range a.room {
			shares[i] = min(room, n)
			n -= shares[i]
		}
		return shares, false, nil
	}
	if req.Forbid || !req.Overbook && !req.Nameless {
		return nil, false, a.shortfall(n, unused)
	}
	shares = spread(n, a.slots, a.bound)
	if shares == nil {
		return nil, false, &Error{Limits, fmt.Sprintf("%d ranks do not fit: -ppn or max_slots allow %d on %s",
			n, sum(a.bound), count(len(a.index), "node")), "raise the limit or name more hosts"}
	}
	return shares, true, nil
}

// shortfall is the refusal of PLACE-4, with the room there is and the ways out.
func (a area) shortfall(n, unused int) error {
	if a.limit > 0 && a.limit*len(a.index) < n && sum(a.slots) >= n {
		return &Error{NotEnough, fmt.Sprintf("%d ranks do not fit: -ppn %d leaves room for %d on %s (%s)",
			n, a.limit, unused, count(len(a.index), "node"), hostlist.Fold(a.names)), "raise -ppn or name more hosts"}
	}
	return &Error{NotEnough, fmt.Sprintf("%d ranks do not fit: %s for %d on %s (%s)",
		n, "there are free slots", unused, count(len(a.index), "node"), hostlist.Fold(a.names)),
		"start fewer ranks, name more hosts, give slots (HOST:N), or share CPUs with --overbook"}
}

// spread deals n ranks in proportion to the slots, within the bounds, in whole
// numbers by largest remainder, equal remainders in list order (5.4). It returns
// nil if the bounds leave no room.
func spread(n int, slots, bounds []int) []int {
	if !slices.Contains(bounds, unbounded) && sum(bounds) < n {
		return nil
	}
	shares := make([]int, len(slots))
	var open []int // nodes that are not at their bound
	for i := range slots {
		open = append(open, i)
	}
	for need := n; ; {
		total := 0
		for _, i := range open {
			total += slots[i]
		}
		full := func(i int) bool { return bounds[i] != unbounded && bounds[i]*total < need*slots[i] }
		if !slices.ContainsFunc(open, full) {
			deal(need, total, open, slots, shares)
			return shares
		}
		took := 0
		for _, i := range open {
			if full(i) {
				shares[i] = bounds[i]
				took += bounds[i]
			}
		}
		open = slices.DeleteFunc(open, full)
		need -= took
	}
}

// deal gives each open node the whole part of its share, and what is left over to
// the largest remainders.
func deal(need, total int, open, slots, shares []int) {
	left := need
	for _, i := range open {
		shares[i] = need * slots[i] / total
		left -= shares[i]
	}
	byRemainder := slices.Clone(open)
	slices.SortStableFunc(byRemainder, func(a, b int) int {
		return cmp.Compare(need*slots[b]%total, need*slots[a]%total)
	})
	for _, i := range byRemainder[:left] {
		shares[i]++
	}
}

// assign gathers the seats by node, in the order in which the nodes were filled.
func assign(seats []seat, nodes, all []job.Node) []job.NodePlan {
	var plans []job.NodePlan
	at := make(map[int]int) // index in plans, by node
	for rank, s := range seats {
		i, known := at[s.node]
		if !known {
			i = len(plans)
			at[s.node] = i
			source := slices.IndexFunc(all, func(n job.Node) bool { return n.ID == nodes[s.node].ID })
			plans = append(plans, job.NodePlan{Node: source, Name: nodes[s.node].Name})
		}
		p := &plans[i]
		p.Ranks = append(p.Ranks, job.RankPlan{Rank: rank, Local: len(p.Ranks), App: s.app})
	}
	return plans
}

func nodesOf(seats []seat) []int {
	nodes := make([]int, len(seats))
	for i, s := range seats {
		nodes[i] = s.node
	}
	return nodes
}

func sum(numbers []int) int {
	total := 0
	for _, n := range numbers {
		total += n
	}
	return total
}

// count writes a number with its noun: "1 node", "2 nodes".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
