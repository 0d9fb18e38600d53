package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This file decides small requests for node sets, shapes and contiguous nodes a second time. It is written
// from which-hosts.md and placement.md alone, tries every possibility, and shares no code with package
// plan. Nodes are values; a view of the cluster is a list of them.

// A siteNode is a node of a random cluster.
type siteNode struct {
	id, cpus, procs int
	load            float64
	down, closed    bool // unreachable; runJobs is no
	maxProcs        int  // 0: any
	noOverbook      bool
	features        []string
	global          bool
	mhz             int // 0: unknown
	affinity        int
}

func (n siteNode) name() string { return fmt.Sprint("n", n.id) }

// A siteRequest is a request for some nodes.
type siteRequest struct {
	nodes                     []siteNode
	list                      []int // IDs of PSI_NODES; nil: all
	np, tpp, shape            int
	contiguous                string
	sort                      string
	overbook, loop, exclusive bool
	wait                      bool
	ahead                     int
	policy, attribute         string
	values                    []string
	tolerance                 int // percent
	priority                  string
	optional, span, best      bool
	delay, waited             int
}

// A siteSet is a node set.
type siteSet struct {
	name  string
	index int
	nodes []siteNode
}

// usable returns the candidates of a view, in list order (placement.md 3).
func (q *siteRequest) usable(view []siteNode) (able []siteNode) {
	order := q.list
	if order == nil {
		for _, n := range view {
			order = append(order, n.id)
		}
		slices.Sort(order)
	}
	for _, id := range order {
		for _, n := range view {
			switch {
			case n.id != id, n.closed, n.down, (q.exclusive || q.overbook) && n.procs > 0:
			case n.maxProcs > 0 && n.procs >= n.maxProcs, max(0, n.cpus-n.procs) < q.tpp:
			default:
				able = append(able, n)
			}
		}
	}
	return able
}

// free is the capacity of placement.md 5.1.
func (q *siteRequest) free(n siteNode) int {
	capacity := max(0, n.cpus-n.procs) / q.tpp
	if n.maxProcs > 0 {
		capacity = min(capacity, n.maxProcs-n.procs)
	}
	return capacity
}

// counted is the capacity of nodes as sets count it (which-hosts.md 1).
func (q *siteRequest) counted(nodes []siteNode) (sum int) {
	for _, n := range nodes {
		if c := q.free(n); q.shape > 0 {
			sum += min(c, q.shape)
		} else {
			sum += c
		}
	}
	return sum
}

// bound is m of placement.md 5.4.
func (q *siteRequest) bound(n siteNode) int {
	m := math.MaxInt32
	if n.maxProcs > 0 {
		m = n.maxProcs - n.procs
	}
	if n.noOverbook {
		m = min(m, n.cpus/q.tpp)
	}
	return m
}

// inOrder sorts nodes as placement.md 4 says.
func (q *siteRequest) inOrder(nodes []siteNode) []siteNode {
	hundredths := func(n siteNode) int { return int(math.Round(n.load * 100)) }
	key := func(n siteNode) (main, tie int) {
		switch q.sort {
		case "LOAD_1":
			return hundredths(n), 0
		case "PROC+LOAD":
			return 100*n.procs + hundredths(n), 0
		}
		if n.procs == 0 {
			return 0, 0
		}
		return n.procs, (hundredths(n) + 50) / 100
	}
	sorted := slices.Clone(nodes)
	if q.sort == "NONE" {
		return sorted
	}
	slices.SortStableFunc(sorted, func(a, b siteNode) int {
		mainA, tieA := key(a)
		mainB, tieB := key(b)
		return cmp.Or(mainA-mainB, tieA-tieB, b.cpus-a.cpus, a.id-b.id)
	})
	return sorted
}

// deal gives each node its number of ranks, one node after the other or in turns.
func (q *siteRequest) deal(order []siteNode, share map[int]int, np int) (ranks []string) {
	for len(ranks) < np {
		for _, n := range order {
			for share[n.id] > 0 && len(ranks) < np {
				share[n.id]--
				ranks = append(ranks, n.name())
				if q.loop {
					break
				}
			}
		}
	}
	return ranks
}

// place places np ranks on nodes and returns the names of the nodes by rank, and the order of the nodes.
// ranks is nil if they do not fit.
func (q *siteRequest) place(view, nodes []siteNode, np int, share bool) (ranks []string, order []siteNode) {
	if q.contiguous != "" {
		return q.placeInWindow(view, nodes, np)
	}
	return q.placeAnywhere(q.inOrder(nodes), np, share)
}

func (q *siteRequest) placeAnywhere(order []siteNode, np int, share bool) ([]string, []siteNode) {
	capacity, bounds, all, limit := map[int]int{}, map[int]int{}, 0, 0
	for _, n := range order {
		capacity[n.id], bounds[n.id] = q.free(n), min(q.bound(n), np)
		all += capacity[n.id]
		limit += bounds[n.id]
	}
	if q.shape > 0 {
		used, shares := q.inShape(order, capacity, np)
		if used == nil && share {
			used, shares = q.inShape(order, bounds, np)
		}
		if used == nil {
			return nil, nil
		}
		return q.deal(used, shares, np), order
	}
	switch {
	case np <= all:
		return q.deal(order, capacity, np), order
	case !share || limit < np:
		return nil, nil
	case q.loop:
		return q.deal(order, bounds, np), order
	}
	return q.deal(order, q.inProportion(order, np), np), order
}

// inShape implements which-hosts.md 9.1.
func (q *siteRequest) inShape(order []siteNode, capacity map[int]int, np int) (used []siteNode, shares map[int]int) {
	w, m := np/q.shape, np%q.shape
	shares = map[int]int{}
	after := 0
	for i, n := range order {
		if len(used) < w && capacity[n.id] >= q.shape {
			used, shares[n.id], after = append(used, n), q.shape, i+1
		}
	}
	if len(used) < w {
		return nil, nil
	}
	if m == 0 {
		return used, shares
	}
	for _, n := range append(slices.Clone(order[after:]), order[:after]...) {
		if shares[n.id] == 0 && capacity[n.id] >= m {
			shares[n.id] = m
			return append(used, n), shares
		}
	}
	return nil, nil
}

// inProportion implements placement.md 5.4 in fractions.
func (q *siteRequest) inProportion(order []siteNode, np int) map[int]int {
	shares, open, need := map[int]int{}, slices.Clone(order), np
	ideal := func(n siteNode) *big.Rat {
		sum := 0
		for _, o := range open {
			sum += o.cpus / q.tpp
		}
		return big.NewRat(int64(need*(n.cpus/q.tpp)), int64(sum))
	}
	for {
		var full, rest []siteNode
		for _, n := range open {
			if new(big.Rat).SetInt64(int64(q.bound(n))).Cmp(ideal(n)) < 0 {
				full = append(full, n)
			} else {
				rest = append(rest, n)
			}
		}
		if full == nil {
			break
		}
		for _, n := range full {
			shares[n.id] = q.bound(n)
			need -= q.bound(n)
		}
		open = rest
	}
	left := need
	fraction := map[int]*big.Rat{}
	for _, n := range open {
		x := ideal(n)
		whole := new(big.Int).Quo(x.Num(), x.Denom())
		shares[n.id] = int(whole.Int64())
		fraction[n.id] = x.Sub(x, new(big.Rat).SetInt(whole))
		left -= shares[n.id]
	}
	slices.SortStableFunc(open, func(a, b siteNode) int { return fraction[b.id].Cmp(fraction[a.id]) })
	for i := range left {
		shares[open[i].id]++
	}
	return shares
}

// placeInWindow implements which-hosts.md 11: it looks at every part of every run.
func (q *siteRequest) placeInWindow(view, nodes []siteNode, np int) ([]string, []siteNode) {
	line := slices.Clone(view)
	slices.SortFunc(line, func(a, b siteNode) int { return a.id - b.id })
	capacity := make([]int, len(line))
	for i, n := range line {
		if slices.ContainsFunc(nodes, func(m siteNode) bool { return m.id == n.id }) {
			capacity[i] = q.free(n)
		}
	}
	least, rest := 1, 0
	if q.shape > 0 {
		least, rest = min(q.shape, np), np%q.shape
	}
	type window struct{ from, to, over int } // nodes of the line; nodes of the run left over
	var chosen *window
	for first := range line {
		if capacity[first] < least || first > 0 && capacity[first-1] >= least {
			continue
		}
		end := first
		for end < len(line) && capacity[end] >= least {
			end++
		}
		var shortest *window
		for from := first; from < end; from++ {
			for to := from + 1; to <= min(end+1, len(line)); to++ {
				left := np
				for i := from; i < to; i++ {
					most := capacity[i]
					if q.shape > 0 {
						most = min(left, q.shape)
					}
					if i == end && (q.shape == 0 || left != rest || rest == 0 || capacity[i] < rest) {
						most = 0 // not a node of the run
					}
					left -= min(left, most)
				}
				w := window{from, to, end - first - (min(to, end) - from)}
				if left == 0 && (shortest == nil || to-from < shortest.to-shortest.from) {
					shortest = &w
				}
			}
		}
		better := func(a, b *window) bool {
			return cmp.Or((a.to-a.from)-(b.to-b.from), a.over-b.over) < 0
		}
		if shortest != nil && (chosen == nil || q.contiguous == "best" && better(shortest, chosen)) {
			chosen = shortest
		}
	}
	if chosen == nil {
		return nil, nil
	}
	shares, left := map[int]int{}, np
	for i := chosen.from; i < chosen.to; i++ {
		most := capacity[i]
		if q.shape > 0 {
			most = min(most, q.shape)
		}
		if shares[line[i].id] = most; !q.loop || q.shape > 0 {
			shares[line[i].id] = min(left, most)
		}
		left -= min(left, most)
	}
	return q.deal(line[chosen.from:chosen.to], shares, np), line[chosen.from:chosen.to]
}

// fits reports whether a set of nodes fits np ranks: placing them there alone, without sharing, succeeds.
func (q *siteRequest) fits(view, nodes []siteNode, np int) bool {
	ranks, _ := q.place(view, nodes, np, false)
	return ranks != nil
}

func (q *siteRequest) withSpeed(nodes []siteNode, low, high, percent int) (in []siteNode) {
	for _, n := range nodes {
		if n.mhz > 0 && n.mhz >= low && 100*n.mhz <= high*(100+percent) {
			in = append(in, n)
		}
	}
	return in
}

// endsOf returns the ends of a number or range of the list.
func (q *siteRequest) endsOf(value string) (low, high int) {
	first, last, isRange := strings.Cut(value, "-")
	if !isRange {
		last = first
	}
	low, _ = strconv.Atoi(first)
	high, _ = strconv.Atoi(last)
	return low, high
}

// members returns the nodes of a value of the list.
func (q *siteRequest) members(value string, nodes []siteNode) []siteNode {
	if q.attribute == "PROCSPEED" {
		low, high := q.endsOf(value)
		if low != high {
			return q.withSpeed(nodes, low, high, 0)
		}
		return q.withSpeed(nodes, low, high, q.tolerance)
	}
	var in []siteNode
	any := false
	for _, n := range nodes {
		has := slices.Contains(n.features, value)
		if any = any || has; has || n.global {
			in = append(in, n)
		}
	}
	if !any {
		return nil
	}
	return in
}

// wholeRange returns the ends of the range of ANYOF.
func (q *siteRequest) wholeRange() (low, high int) {
	low, high = q.endsOf(q.values[0])
	for _, value := range q.values {
		a, b := q.endsOf(value)
		low, high = min(low, a), max(high, b)
	}
	return low, high
}

// sets implements which-hosts.md 6.
func (q *siteRequest) sets(nodes []siteNode) (sets []siteSet) {
	add := func(name string, members []siteNode) {
		same := func(s siteSet) bool { return sameNodes(s.nodes, members) }
		if members != nil && !slices.ContainsFunc(sets, same) {
			sets = append(sets, siteSet{name, len(sets), members})
		}
	}
	values := slices.Clone(q.values)
	if values == nil {
		for _, n := range nodes {
			if q.attribute == "FEATURE" {
				values = append(values, n.features...)
			} else if n.mhz > 0 {
				values = append(values, fmt.Sprint(n.mhz))
			}
		}
		slices.Sort(values)
		if values = slices.Compact(values); q.attribute != "FEATURE" {
			slices.SortFunc(values, func(a, b string) int { a1, _ := q.endsOf(a); b1, _ := q.endsOf(b); return b1 - a1 })
		}
	} else if q.policy == "ANYOF" && q.attribute == "PROCSPEED" {
		low, high := q.wholeRange()
		name := fmt.Sprint(low)
		if low != high {
			name = fmt.Sprintf("%d-%d", low, high)
		}
		add(name, q.withSpeed(nodes, low, high, q.tolerance))
		return sets
	}
	for _, value := range values {
		add(value, q.members(value, nodes))
	}
	return sets
}

func sameNodes(a, b []siteNode) bool {
	ids := func(nodes []siteNode) (ids []int) {
		for _, n := range nodes {
			ids = append(ids, n.id)
		}
		slices.Sort(ids)
		return ids
	}
	return slices.Equal(ids(a), ids(b))
}

// unused returns the values of the warnings unused-value.
func (q *siteRequest) unused() (unused []string) {
	for _, value := range q.values {
		used := q.members(value, q.nodes) != nil
		if q.policy == "ANYOF" && q.attribute == "PROCSPEED" {
			low, high := q.wholeRange()
			a, b := q.endsOf(value)
			used = used || (a == low || b == high) && q.withSpeed(q.nodes, low, high, q.tolerance) != nil
		}
		if !used && !slices.Contains(unused, value) {
			unused = append(unused, value)
		}
	}
	return unused
}

func (q *siteRequest) keep(nodes []siteNode, which func(siteNode) bool) (kept []siteNode) {
	for _, n := range nodes {
		if which(n) {
			kept = append(kept, n)
		}
	}
	return kept
}

// loss implements MINLOSS of which-hosts.md 7.2. The ranks take t CPUs each.
func (q *siteRequest) loss(s siteSet) (loss, slowest, last int, known bool) {
	bySpeed := slices.Clone(s.nodes)
	slices.SortFunc(bySpeed, func(a, b siteNode) int { return cmp.Or(a.mhz-b.mhz, a.id-b.id) })
	left := q.np
	for i, n := range bySpeed {
		if x := min(q.counted(bySpeed[i:i+1]), left); x > 0 {
			if slowest == 0 {
				slowest = n.mhz
			}
			loss, last, left = loss+x*q.tpp*(n.mhz-slowest), n.mhz, left-x
		}
	}
	return loss, slowest, last, bySpeed[0].mhz > 0
}

// key is that of the priority type: the set with the smallest is chosen.
func (q *siteRequest) key(view []siteNode, s siteSet) []int {
	capacity := q.counted(s.nodes)
	switch q.priority {
	case "BESTFIT":
		return []int{capacity, s.index}
	case "WORSTFIT":
		return []int{-capacity, s.index}
	case "BESTRESOURCE":
		slowest := math.MaxInt
		for _, n := range s.nodes {
			slowest = min(slowest, n.mhz)
		}
		return []int{-slowest, capacity, s.index}
	case "MINLOSS":
		loss, slowest, _, known := q.loss(s)
		if !known {
			return []int{math.MaxInt, 0, capacity, s.index}
		}
		return []int{loss, -slowest, capacity, s.index}
	case "AFFINITY":
		avoided := 1
		if q.fits(view, q.keep(s.nodes, func(n siteNode) bool { return n.affinity >= 0 }), q.np) {
			avoided = 0
		}
		return []int{avoided, -min(q.np, q.counted(q.keep(s.nodes, func(n siteNode) bool { return n.affinity > 0 }))), s.index}
	}
	return []int{s.index}
}

// narrowed returns the members of a chosen set that are used.
func (q *siteRequest) narrowed(view []siteNode, s siteSet) []siteNode {
	var fewer []siteNode
	switch {
	case q.policy == "FIRSTOF":
		return s.nodes
	case q.priority == "MINLOSS":
		if _, _, last, known := q.loss(s); known {
			fewer = q.keep(s.nodes, func(n siteNode) bool { return n.mhz <= last })
		}
	case q.priority == "AFFINITY":
		fewer = q.keep(s.nodes, func(n siteNode) bool { return n.affinity >= 0 })
	}
	if fewer != nil && q.fits(view, fewer, q.np) {
		return fewer
	}
	return s.nodes
}

func union(sets []siteSet) (all []siteNode, names []string) {
	for _, s := range sets {
		names = append(names, s.name)
		for _, n := range s.nodes {
			if !slices.ContainsFunc(all, func(m siteNode) bool { return m.id == n.id }) {
				all = append(all, n)
			}
		}
	}
	return all, names
}

// byPolicy returns the set that the policy chooses in the normal pass; nil: none fits.
func (q *siteRequest) byPolicy(view, able []siteNode) *siteSet {
	var best *siteSet
	for _, s := range q.sets(able) {
		switch {
		case !q.fits(view, s.nodes, q.np):
		case best == nil, q.policy == "ONEOF" && slices.Compare(q.key(view, s), q.key(view, *best)) < 0:
			best = &s
		}
	}
	return best
}

// A verdict is a result: placed ranks, or the code of an error.
type verdict struct {
	code       string
	ranks      []string
	order      []siteNode
	chosen     []string
	withoutSet bool
	shared     bool // chosen in the pass in which ranks share CPUs
}

// solve implements which-hosts.md 7.1 for one view. waited is in seconds.
func (q *siteRequest) solve(view, idle []siteNode, waited int) verdict {
	able := q.usable(view)
	if len(able) == 0 {
		return verdict{code: "no-candidates"}
	}
	mayShare := q.overbook && q.contiguous == ""
	sets := q.sets(able)
	if q.policy == "" {
		sets = nil
	}
	inListOrder := func(nodes []siteNode) []siteNode {
		return q.keep(able, func(n siteNode) bool {
			return slices.ContainsFunc(nodes, func(m siteNode) bool { return m.id == n.id })
		})
	}
	try := func(nodes []siteNode, share bool, chosen ...string) *verdict {
		if ranks, order := q.place(view, inListOrder(nodes), q.np, share); ranks != nil {
			return &verdict{ranks: ranks, order: order, chosen: chosen, shared: share}
		}
		return nil
	}
	all, names := union(sets)
	idleAble := q.usable(idle)
	waiting := false
	if q.policy != "" && q.delay > waited {
		if waiting = q.byPolicy(idle, idleAble) != nil; q.policy == "ANYOF" {
			together, _ := union(q.sets(idleAble))
			waiting = len(together) > 0 && q.fits(idle, inOrderOf(idleAble, together), q.np)
		}
	}
	var found *verdict
	switch {
	case q.policy == "":
	case q.policy == "ANYOF":
		found = try(all, false, names...)
	case waiting && q.best:
		s := *q.byPolicy(idle, idleAble)
		s.nodes = inListOrder(s.nodes)
		if i := slices.IndexFunc(sets, func(now siteSet) bool { return sameNodes(now.nodes, s.nodes) }); i >= 0 {
			s.name = sets[i].name
		}
		if len(s.nodes) > 0 && q.fits(view, s.nodes, q.np) {
			found = try(q.narrowed(view, s), false, s.name)
		}
	default:
		if s := q.byPolicy(view, able); s != nil {
			found = try(q.narrowed(view, *s), false, s.name)
		}
	}
	if found == nil && !waiting {
		found = q.spanned(view, sets)
	}
	outside := q.policy == "" || q.optional
	if found == nil && !waiting && outside {
		if found = try(able, false); found != nil {
			found.withoutSet = q.policy != ""
		}
	}
	if found == nil && !waiting && mayShare {
		if q.policy == "ANYOF" {
			found = try(all, true, names...)
		} else if q.policy == "ONEOF" {
			slices.SortStableFunc(sets, func(a, b siteSet) int {
				sum := func(s siteSet) (cpus int) {
					for _, n := range s.nodes {
						cpus += n.cpus
					}
					return cpus
				}
				return sum(b) - sum(a)
			})
		}
		for _, s := range sets {
			if found == nil && q.policy != "ANYOF" {
				found = try(s.nodes, true, s.name)
			}
		}
		if found == nil && outside {
			if found = try(able, true); found != nil {
				found.withoutSet = q.policy != ""
			}
		}
	}
	if found != nil {
		return *found
	}
	scattered, _ := q.placeAnywhere(able, q.np, mayShare)
	switch {
	case scattered == nil && mayShare:
		return verdict{code: "limit-reached"}
	case scattered == nil:
		return verdict{code: "not-enough-cpus"}
	case q.contiguous != "" && !q.fits(view, able, q.np):
		return verdict{code: "no-contiguous"}
	case waiting:
		return verdict{code: "nodeset-delay"}
	}
	return verdict{code: "no-node-set"}
}

func inOrderOf(list, nodes []siteNode) (ordered []siteNode) {
	for _, n := range list {
		if slices.ContainsFunc(nodes, func(m siteNode) bool { return m.id == n.id }) {
			ordered = append(ordered, n)
		}
	}
	return ordered
}

// spanned implements SPANEVENLY of which-hosts.md 7.4.
func (q *siteRequest) spanned(view []siteNode, sets []siteSet) *verdict {
	if !q.span || q.policy != "ONEOF" && q.policy != "FIRSTOF" || q.contiguous != "" {
		return nil
	}
	line := slices.Clone(sets)
	if q.policy == "ONEOF" && q.priority != "MINLOSS" && q.priority != "AFFINITY" {
		slices.SortFunc(line, func(a, b siteSet) int { return slices.Compare(q.key(view, a), q.key(view, b)) })
	}
	for k := 2; k <= min(len(sets), q.np); k++ {
		var v verdict
		taken := map[int]bool{}
		used := map[string]bool{}
		for part := range k {
			quota := q.np / k
			if part < q.np%k {
				quota++
			}
			for _, s := range line {
				left := q.keep(s.nodes, func(n siteNode) bool { return !taken[n.id] && !(q.attribute == "FEATURE" && n.global) })
				if used[s.name] || len(left) == 0 {
					continue
				}
				ranks, order := q.place(view, left, quota, false)
				if ranks == nil {
					continue
				}
				used[s.name] = true
				for _, n := range left {
					taken[n.id] = true
				}
				v.ranks, v.order, v.chosen = append(v.ranks, ranks...), append(v.order, order...), append(v.chosen, s.name)
				break
			}
		}
		if len(v.chosen) == k {
			return &v
		}
	}
	return nil
}

// decide returns the result as a text, which is compared with that of the program, and whether ranks share
// CPUs.
func (q *siteRequest) decide() (text string, shared bool) {
	reachable, idle := slices.Clone(q.nodes), slices.Clone(q.nodes)
	unknown := false
	for i := range q.nodes {
		n := &q.nodes[i]
		idle[i].procs = 0 // of nodes that are up: the others are no candidates
		reachable[i].procs, reachable[i].down = 0, false
		listed := q.list == nil || slices.Contains(q.list, n.id)
		unknown = unknown || listed && n.down && !n.closed && n.mhz == 0 && q.policy != "" && q.attribute == "PROCSPEED"
	}
	v := q.solve(q.nodes, idle, q.waited)
	head := fmt.Sprint(q.unused(), " ")
	if v.code != "" && !unknown && q.solve(reachable, reachable, math.MaxInt).code != "" {
		return head + "error " + v.code + " permanent", false
	}
	if q.ahead > 0 {
		v.code = "queue-busy"
	}
	switch {
	case v.code == "nodeset-delay":
		return head + fmt.Sprint("queued ", v.code, " ", q.ahead+1, " ", q.delay-q.waited), false
	case v.code != "" && q.wait:
		return head + fmt.Sprint("queued ", v.code, " ", q.ahead+1, " 0"), false
	case v.code != "":
		return head + "error " + v.code, false
	}
	if q.policy != "" {
		head += fmt.Sprint(q.considered(), " ", v.chosen, " ", v.withoutSet, " ")
	}
	var order []string
	for _, n := range v.order {
		order = append(order, n.name())
	}
	return head + fmt.Sprint(order, " ", v.ranks), v.shared
}

// considered lists the sets of now.
func (q *siteRequest) considered() (all []string) {
	for _, s := range q.sets(q.usable(q.nodes)) {
		all = append(all, fmt.Sprint(s.name, "/", len(s.nodes), "/", q.counted(s.nodes), "/", q.fits(q.nodes, inOrderOf(q.usable(q.nodes), s.nodes), q.np)))
	}
	return all
}

// state returns the request as a state file.
func (q *siteRequest) state() []byte {
	nodes := []any{}
	affinity := []any{}
	for _, n := range q.nodes {
		node := map[string]any{"id": n.id, "name": n.name(), "up": !n.down, "cpus": n.cpus, "procs": n.procs, "load": []float64{n.load, 0, 0}, "run_jobs": !n.closed,
			"features": n.features, "global": n.global, "overbook": map[bool]string{false: "yes", true: "no"}[n.noOverbook]}
		if n.maxProcs > 0 {
			node["max_procs"] = n.maxProcs
		}
		if n.mhz > 0 {
			node["attributes"] = map[string]any{"PROCSPEED": n.mhz}
		}
		nodes = append(nodes, node)
		affinity = append(affinity, map[string]any{"nodes": []string{n.name()}, "value": n.affinity})
	}
	env := map[string]any{"PSI_NODES_SORT": q.sort}
	if q.list != nil {
		env["PSI_NODES"] = strings.Trim(strings.ReplaceAll(fmt.Sprint(q.list), " ", ","), "[]")
	}
	options := map[string]any{"tpp": q.tpp, "overbook": q.overbook, "loop_nodes_first": q.loop, "exclusive": q.exclusive, "wait": q.wait}
	if q.shape > 0 {
		options["shape"] = q.shape
	}
	if q.contiguous != "" {
		options["contiguous"] = q.contiguous
	}
	if q.policy != "" {
		request := q.policy + ":" + q.attribute
		if q.values != nil {
			request += ":" + strings.Join(q.values, ",")
		}
		options["node_set"], options["node_set_priority"], options["node_set_delay"] = request, q.priority, q.delay
		options["node_set_optional"] = map[bool]string{false: "no", true: "yes"}[q.optional]
		var plus []string
		if q.span {
			plus = append(plus, "SPANEVENLY")
		}
		if q.best {
			plus = append(plus, "DELAY")
		}
		options["node_set_plus"] = strings.Join(plus, ",")
		if q.tolerance > 0 {
			options["node_set_tolerance"] = fmt.Sprint(q.tolerance, "%")
		}
	}
	data, _ := json.Marshal(map[string]any{"version": 1, "nodes": nodes, "env": env, "options": options, "config": map[string]any{"affinity": affinity},
		"np": q.np, "uid": 1000, "gid": 100, "queue_ahead": q.ahead, "waited": q.waited})
	return data
}

// randomSite returns a small cluster and a request. Every second request has a shape, and most of these are
// contiguous. Every third node is GLOBAL, every third request FIRSTOF, and DELAY is frequent.
func randomSite(r *rand.Rand) *siteRequest {
	odd := func(n int) bool { return r.IntN(n) == 0 }
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	q := &siteRequest{np: 1 + r.IntN(8), tpp: 1, sort: pick("PROC", "PROC", "LOAD_1", "PROC+LOAD", "NONE"), policy: pick("ONEOF", "ONEOF", "FIRSTOF", "FIRSTOF", "ANYOF", ""),
		attribute: pick("FEATURE", "FEATURE", "PROCSPEED"), priority: pick("FIRSTFIT", "BESTFIT", "WORSTFIT", "AFFINITY", "MINLOSS", "BESTRESOURCE"),
		overbook: odd(5), loop: odd(4), exclusive: odd(16), wait: odd(4), optional: odd(4), span: odd(3), best: odd(2)}
	if odd(5) {
		q.tpp = 2
	}
	if odd(2) {
		q.shape = 1 + r.IntN(3)
	}
	if r.IntN(3) < 1+min(q.shape, 1) {
		q.contiguous = pick("first", "best")
	}
	if odd(4) { // most of these share CPUs
		q.np, q.overbook, q.contiguous = 4+r.IntN(12), true, ""
	}
	if odd(8) {
		q.ahead = r.IntN(3)
	}
	if odd(2) {
		q.delay, q.waited = 60, []int{0, 0, 30, 60}[r.IntN(4)]
	}
	id := 0
	for range 2 + r.IntN(7) {
		id += 1 + r.IntN(2)
		n := siteNode{id: id, cpus: 1 + r.IntN(4), load: float64(r.IntN(400)) / 100, down: odd(14), closed: odd(12), noOverbook: odd(6), features: []string{}, global: odd(3),
			mhz: 500 * r.IntN(5), affinity: r.IntN(3) - 1}
		if odd(2) {
			n.procs = r.IntN(n.cpus + 1)
		}
		if odd(10) {
			n.maxProcs = 1 + r.IntN(5)
		}
		for _, feature := range []string{"a", "b", "c", "d"} {
			if odd(3) {
				n.features = append(n.features, feature)
			}
		}
		q.nodes = append(q.nodes, n)
	}
	if odd(10) {
		q.list = []int{}
		for _, i := range r.Perm(len(q.nodes))[:1+r.IntN(len(q.nodes))] {
			q.list = append(q.list, q.nodes[i].id)
		}
	}
	if q.attribute == "PROCSPEED" {
		q.tolerance = 50 * r.IntN(3)
	}
	if q.priority == "BESTRESOURCE" && q.attribute != "PROCSPEED" || q.priority == "MINLOSS" && q.attribute == "PROCSPEED" && q.tolerance == 0 {
		q.priority = "BESTFIT"
	}
	for range r.IntN(4) {
		value := pick("a", "b", "c", "d", "e")
		if q.attribute == "PROCSPEED" {
			low := 250 * (1 + r.IntN(8))
			if value = fmt.Sprint(low); odd(4) {
				value = fmt.Sprintf("%d-%d", low, low+250*(1+r.IntN(4)))
			}
		}
		q.values = append(q.values, value)
	}
	if q.policy == "" {
		q.values, q.delay = nil, 0
	}
	return q
}

// selectionText returns the program's result in the format of siteRequest.decide.
func selectionText(written string) string {
	var p struct {
		Ranks         []struct{ Node string }
		Order         []string
		Warnings      []struct{ Code, Message string }
		Queued, Error *struct {
			Code      string
			Position  int
			RetryIn   int `json:"retry_in"`
			Permanent bool
		}
		Choice struct {
			NodeSet *struct {
				Considered []struct {
					Name            string
					Nodes, Capacity int
					Fits            bool
				}
				Chosen     []string
				WithoutSet bool `json:"without_set"`
			} `json:"node_set"`
		}
	}
	if err := json.Unmarshal([]byte(written), &p); err != nil {
		return err.Error()
	}
	var unused []string
	for _, w := range p.Warnings {
		if w.Code == "unused-value" {
			unused = append(unused, w.Message[strings.LastIndex(w.Message, " ")+1:])
		}
	}
	head := fmt.Sprint(unused, " ")
	switch {
	case p.Queued != nil:
		return head + fmt.Sprint("queued ", p.Queued.Code, " ", p.Queued.Position, " ", p.Queued.RetryIn)
	case p.Error != nil && p.Error.Permanent:
		return head + "error " + p.Error.Code + " permanent"
	case p.Error != nil:
		return head + "error " + p.Error.Code
	}
	if s := p.Choice.NodeSet; s != nil {
		var considered []string
		for _, c := range s.Considered {
			considered = append(considered, fmt.Sprint(c.Name, "/", c.Nodes, "/", c.Capacity, "/", c.Fits))
		}
		head += fmt.Sprint(considered, " ", s.Chosen, " ", s.WithoutSet, " ")
	}
	var ranks []string
	for _, r := range p.Ranks {
		ranks = append(ranks, r.Node)
	}
	return head + fmt.Sprint(p.Order, " ", ranks)
}

// For 3,000 random states the program and the referee choose the same sets, windows and nodes, or give the
// same error.
func TestSelectionReferee(t *testing.T) {
	const cases, seed = 3000, 33
	kinds := map[string]int{}
	for i := range uint64(cases) {
		q := randomSite(rand.New(rand.NewPCG(seed, i)))
		data := q.state()
		want, shared := q.decide()
		if got := selectionText(writtenOutcome(t, data)); got != want {
			t.Fatalf("case %d: %s\n got %s\nwant %s", i, data, got, want)
		}
		for kind, is := range map[string]bool{
			"contiguous in a shape": q.contiguous != "" && q.shape > 0, "FIRSTOF": q.policy == "FIRSTOF", "DELAY": q.best && q.delay > q.waited && q.policy != "",
			"GLOBAL": q.attribute == "FEATURE" && q.policy != "" && slices.ContainsFunc(q.nodes, func(n siteNode) bool { return n.global }),
			"placed": strings.HasSuffix(want, "]"), "placed, contiguous in a shape": q.contiguous != "" && q.shape > 0 && strings.HasSuffix(want, "]"),
			"delayed": strings.Contains(want, "nodeset-delay"), "no set": strings.Contains(want, "no-node-set"), "scattered": strings.Contains(want, "no-contiguous"),
			"unused": !strings.HasPrefix(want, "[] "), "permanent": strings.HasSuffix(want, "permanent"),
			"FIRSTOF with shared CPUs": shared && q.policy == "FIRSTOF", "shared": shared,
		} {
			if is {
				kinds[kind]++
			}
		}
	}
	t.Log(kinds)
	for _, kind := range []string{"placed", "placed, contiguous in a shape", "delayed", "no set", "scattered", "unused", "permanent", "FIRSTOF with shared CPUs", "shared"} {
		if kinds[kind] < cases/100 {
			t.Errorf("%d cases of %s: too few", kinds[kind], kind)
		}
	}
	for _, kind := range []string{"contiguous in a shape", "FIRSTOF", "DELAY", "GLOBAL"} { // they had most faults
		if kinds[kind] < cases/8 {
			t.Errorf("%d cases of %s: too few", kinds[kind], kind)
		}
	}
}
