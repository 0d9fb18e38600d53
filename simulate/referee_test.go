package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// This file plans small clusters a second time, in the simplest way: nodes are values, placement loops
// over ranks, shares are fractions, and "never" is the sum of placement.md 6.2. It shares no code with
// package plan and was written from the specification, so that a wrong reading must happen twice to stay
// hidden.

// A refNode is a node as in the state file.
type refNode struct {
	ID             int       `json:"id"`
	Name           string    `json:"name"`
	Up             bool      `json:"up"`
	CPUs           *int      `json:"cpus"`
	Threads        int       `json:"threads_per_core"`
	NUMA           int       `json:"numa_nodes"`
	Allowed        []int     `json:"allowed_cpus"`
	Procs          int       `json:"procs"`
	Busy           []int     `json:"busy_cpus"`
	Exclusive      bool      `json:"exclusive_job"`
	Load           []float64 `json:"load"`
	RunJobs        bool      `json:"run_jobs"`
	Users          []int     `json:"users"`
	Groups         []int     `json:"groups"`
	MaxProcs       *int      `json:"max_procs"`
	Features       []string  `json:"features"`
	Overbook       string    `json:"overbook"`
	AllowExclusive bool      `json:"allow_exclusive"`
	Map            []int     `json:"cpu_map"`
	UserMap        bool      `json:"allow_user_map"`
	Pin            bool      `json:"pin_procs"`
	BindMem        bool      `json:"bind_mem"`
	CountThreads   bool      `json:"count_threads"`
}

type refState struct {
	Nodes   []refNode         `json:"nodes"`
	Env     map[string]string `json:"env"`
	Options map[string]any    `json:"options"`
	NP      int               `json:"np"`
	UID     int               `json:"uid"`
	GID     int               `json:"gid"`
	GIDs    []int             `json:"gids"`
	Ahead   int               `json:"queue_ahead"`

	list       []int // IDs
	sort       string
	threads    int
	ppn        int
	wantedSort string
	userMap    []int
}

func (s *refState) has(name string) bool { _, is := s.Env[name]; return is }

type refUnit struct {
	number int
	cpus   []int
	numa   int
}

func (n *refNode) units() []refUnit {
	var units []refUnit
	if n.CPUs == nil {
		return nil
	}
	cores := *n.CPUs
	for i := range cores {
		u := refUnit{number: i, numa: int(math.Floor(float64(i) * float64(n.NUMA) / float64(cores)))}
		for k := range n.Threads {
			if cpu := i + k*cores; n.Allowed == nil || slices.Contains(n.Allowed, cpu) {
				u.cpus = append(u.cpus, cpu)
			}
		}
		if n.CountThreads {
			for _, cpu := range u.cpus {
				units = append(units, refUnit{cpu, []int{cpu}, u.numa})
			}
		} else if len(u.cpus) > 0 {
			units = append(units, u)
		}
	}
	slices.SortFunc(units, func(a, b refUnit) int { return a.number - b.number })
	return units
}

func (n *refNode) slots(m []int) []refUnit {
	left := n.units()
	var order []refUnit
	for _, number := range m {
		for i, u := range left {
			if u.number == number {
				order = append(order, u)
				left = slices.Delete(left, i, i+1)
				break
			}
		}
	}
	return append(order, left...)
}

func (n *refNode) busy() map[int]bool {
	busy := map[int]bool{}
	slots := n.slots(n.Map)
	for _, u := range slots {
		for _, cpu := range u.cpus {
			if slices.Contains(n.Busy, cpu) {
				busy[u.number] = true
			}
		}
	}
	for _, u := range slots {
		if len(busy) < n.Procs {
			busy[u.number] = true
		}
	}
	return busy
}

func (n *refNode) freeSlots() int { return len(n.units()) - len(n.busy()) }

// dropReason implements the table of section 3.
func (s *refState) dropReason(n *refNode, excl bool) string {
	switch {
	case !n.RunJobs:
		return "runjobs-off"
	case n.Users != nil && s.UID != 0 && !slices.Contains(n.Users, s.UID):
		return "user"
	case n.Groups != nil && s.UID != 0 && !slices.Contains(n.Groups, s.GID) && !slices.ContainsFunc(s.GIDs, func(g int) bool { return slices.Contains(n.Groups, g) }):
		return "group"
	case s.wantedSort != "" && !slices.Contains(n.Features, s.wantedSort):
		return "hardware"
	case excl && !n.AllowExclusive:
		return "exclusive-denied"
	case !n.Up:
		return "unreachable"
	case n.Exclusive:
		return "exclusive-by-other"
	case excl && (n.Procs > 0 || len(n.busy()) > 0):
		return "not-idle"
	case n.MaxProcs != nil && n.Procs >= *n.MaxProcs:
		return "maxproc"
	case n.freeSlots() < 1:
		return "cpus-full"
	case n.freeSlots() < s.threads:
		return "tpp-fit"
	}
	return ""
}

func (s *refState) limit(n *refNode, procs int) int {
	limit := math.MaxInt32
	if n.MaxProcs != nil {
		limit = *n.MaxProcs - procs
	}
	if s.ppn > 0 {
		limit = min(limit, s.ppn)
	}
	return max(limit, 0)
}

// overbookBound is the bound of 5.4.
func (s *refState) overbookBound(n *refNode, procs int) int {
	m := s.limit(n, procs)
	if n.Overbook == "no" {
		m = min(m, len(n.units())/s.threads)
	}
	return m
}

// isPermanent implements 6.2.
func (s *refState) isPermanent(excl, over bool) bool {
	sum := 0
	seen := map[int]bool{}
	for _, id := range s.list {
		n := s.node(id)
		if seen[id] {
			continue
		}
		seen[id] = true
		switch s.dropReason(n, excl) {
		case "runjobs-off", "user", "group", "hardware", "exclusive-denied":
			continue
		}
		fit := len(n.units()) / s.threads
		switch {
		case n.CPUs == nil:
			return false
		case over && fit == 0:
		case over:
			sum += s.overbookBound(n, 0)
		default:
			sum += min(fit, s.limit(n, 0))
		}
	}
	return sum < s.NP
}

func (s *refState) node(id int) *refNode {
	for i := range s.Nodes {
		if s.Nodes[i].ID == id {
			return &s.Nodes[i]
		}
	}
	return nil
}

// less implements 4.2.
func (s *refState) less(a, b *refNode) int {
	key := func(n *refNode) int {
		at := map[string]int{"LOAD_1": 0, "LOAD_5": 1, "LOAD_15": 2, "PROC+LOAD": 0}
		if s.sort == "PROC" {
			return n.Procs
		}
		if n.Load == nil {
			return math.MaxInt
		}
		h := int(math.Round(n.Load[at[s.sort]] * 100))
		if s.sort == "PROC+LOAD" {
			h += 100 * n.Procs
		}
		return h
	}
	tieLoad := func(n *refNode) int {
		switch {
		case s.sort != "PROC" || n.Procs == 0:
			return 0
		case n.Load == nil:
			return math.MaxInt
		}
		return int(math.Floor(n.Load[0] + 0.5)) // loads of this file have at most two decimals
	}
	for _, pair := range [][2]int{{key(a), key(b)}, {tieLoad(a), tieLoad(b)}, {len(b.units()), len(a.units())}, {a.ID, b.ID}} {
		if pair[0] < pair[1] {
			return -1
		} else if pair[0] > pair[1] {
			return 1
		}
	}
	return 0
}

// shares implements 5.4 in fractions.
func (s *refState) shares(nodes []*refNode) map[int]int {
	got := map[int]int{}
	need, a := s.NP, slices.Clone(nodes)
	ideal := func(n *refNode) *big.Rat {
		c := 0
		for _, n := range a {
			c += len(n.units()) / s.threads
		}
		return big.NewRat(int64(need)*int64(len(n.units())/s.threads), int64(c))
	}
	for {
		var full, rest []*refNode
		for _, n := range a {
			if big.NewRat(int64(s.overbookBound(n, 0)), 1).Cmp(ideal(n)) < 0 {
				full = append(full, n)
			} else {
				rest = append(rest, n)
			}
		}
		if len(full) == 0 {
			break
		}
		for _, n := range full {
			got[n.ID] = s.overbookBound(n, 0)
			need -= got[n.ID]
		}
		a = rest
	}
	type rest struct {
		id   int
		frac *big.Rat
	}
	var fractions []rest
	left := need
	for _, n := range a {
		x := ideal(n)
		whole := new(big.Int).Quo(x.Num(), x.Denom())
		got[n.ID] = int(whole.Int64())
		left -= got[n.ID]
		fractions = append(fractions, rest{n.ID, new(big.Rat).Sub(x, new(big.Rat).SetInt(whole))})
	}
	slices.SortStableFunc(fractions, func(a, b rest) int { return b.frac.Cmp(a.frac) })
	for i := range left {
		got[fractions[i].id]++
	}
	return got
}

// plan returns the result as a text, which is compared with that of the program.
func (s *refState) plan() string {
	over, loop, wait := s.has("PSI_OVERBOOK"), s.has("PSI_LOOP_NODES_FIRST"), s.has("PSI_WAIT")
	excl := s.has("PSI_EXCLUSIVE") || over
	var rejected []string
	var order []*refNode
	seen := map[int]bool{}
	for _, id := range s.list {
		n := s.node(id)
		if why := s.dropReason(n, excl); why == "" {
			order = append(order, n)
		} else if !seen[id] {
			rejected = append(rejected, n.Name+" "+why)
		}
		seen[id] = true
	}
	if s.sort != "NONE" {
		slices.SortStableFunc(order, s.less)
	}
	head := fmt.Sprint(rejected, " ")
	var nodes []*refNode
	capacity, u, bound := map[int]int{}, 0, 0
	for _, n := range order {
		if _, known := capacity[n.ID]; !known {
			capacity[n.ID] = min(n.freeSlots()/s.threads, s.limit(n, n.Procs))
			nodes = append(nodes, n)
			u += capacity[n.ID]
			bound += s.overbookBound(n, n.Procs)
		}
	}
	code := ""
	switch {
	case len(order) == 0:
		code = "no-candidates"
	case s.NP > u && !over:
		code = "not-enough-cpus"
	case s.NP > u && bound < s.NP:
		code = "limit-reached"
	}
	switch never := code != "" && s.isPermanent(excl, over); {
	case never:
		return head + "error " + code + " true"
	case s.Ahead > 0:
		code = "queue-busy"
	}
	if code != "" && wait {
		return head + fmt.Sprint("queued ", code, " ", s.Ahead+1)
	}
	if code != "" {
		return head + "error " + code + " false"
	}
	quota := capacity
	if s.NP > u {
		quota = map[int]int{}
		for _, n := range nodes {
			quota[n.ID] = s.overbookBound(n, 0)
		}
		if !loop {
			quota = s.shares(nodes)
		}
	}
	var names []string
	for _, n := range order {
		names = append(names, n.Name)
	}
	head += fmt.Sprint(names, " ", s.NP > u)
	return head + s.walk(order, quota, loop, s.NP > u)
}

func (s *refState) walk(order []*refNode, quota map[int]int, loop, over bool) string {
	var ranks []string
	count := map[int]int{}
	for len(ranks) < s.NP {
		for _, n := range order {
			for count[n.ID] < quota[n.ID] && len(ranks) < s.NP {
				ranks = append(ranks, s.bindRank(n, count[n.ID], over))
				count[n.ID]++
				if loop {
					break
				}
			}
		}
	}
	return "\n" + strings.Join(ranks, "\n")
}

// bindRank implements 7.2 to 7.5 for the k-th rank of a node.
func (s *refState) bindRank(n *refNode, k int, over bool) string {
	m := n.Map
	if s.userMap != nil && n.UserMap {
		m = s.userMap
		for _, number := range s.userMap {
			if number >= *n.CPUs*map[bool]int{false: 1, true: n.Threads}[n.CountThreads] {
				m = n.Map
			}
		}
	}
	busy := n.busy()
	slots := n.slots(m)
	var free []int
	for i, u := range slots {
		if !busy[u.number] {
			free = append(free, i)
		}
	}
	if over {
		k %= len(free) / s.threads
	}
	var cpus, mems []int
	for _, i := range free[k*s.threads : k*s.threads+s.threads] {
		cpus = append(cpus, slots[i].cpus...)
		mems = append(mems, slots[i].numa)
	}
	slices.Sort(cpus)
	slices.Sort(mems)
	mems = slices.Compact(mems)
	if !n.Pin || s.has("__PSI_NO_PINPROC") {
		cpus = nil
	}
	if !n.BindMem || s.has("__PSI_NO_MEMBIND") {
		mems = nil
	}
	return fmt.Sprint(n.Name, " ", free[k*s.threads:k*s.threads+s.threads], cpus, mems)
}

// A sizeBounds is the limits of a random cluster and request.
type sizeBounds struct{ nodes, cores, ranks int }

var small = sizeBounds{4, 5, 12} // small enough to reach every case

// random returns a small cluster and a request.
func random(r *rand.Rand) *refState { return small.random(r) }

func (z sizeBounds) random(r *rand.Rand) *refState {
	odd := func(n int) bool { return r.IntN(n) == 0 }
	some := func(n, most int) []int {
		list := []int{}
		for range n {
			list = append(list, r.IntN(most))
		}
		return list
	}
	s := &refState{Env: map[string]string{}, Options: map[string]any{}, UID: r.IntN(3), GID: r.IntN(3), GIDs: some(r.IntN(2), 3), threads: 1}
	for i := range 1 + r.IntN(z.nodes) {
		cores := 1 + r.IntN(z.cores)
		n := refNode{ID: 3*i + r.IntN(3), Name: fmt.Sprint("n", i), Up: !odd(8), CPUs: &cores, Threads: 1 + r.IntN(2), NUMA: 1 + r.IntN(2),
			Exclusive: odd(12), RunJobs: !odd(12), Overbook: []string{"yes", "no", "auto"}[r.IntN(3)], AllowExclusive: !odd(10), UserMap: odd(2), Pin: !odd(6), BindMem: !odd(6), CountThreads: odd(4)}
		all := cores * n.Threads
		if odd(3) {
			n.Procs = r.IntN(cores + 1)
			n.Busy = some(r.IntN(cores+1), all)
		}
		if odd(4) {
			n.Allowed = some(1+r.IntN(all), all)
		}
		if odd(3) {
			n.Map = some(r.IntN(4), cores)
		}
		if !odd(6) {
			n.Load = []float64{float64(r.IntN(300)) / 100, float64(r.IntN(3)), float64(r.IntN(3)) / 2}
		}
		if odd(4) {
			most := r.IntN(z.cores + 1)
			n.MaxProcs = &most
		}
		if odd(8) {
			n.Users = some(r.IntN(3), 3)
		}
		if odd(8) {
			n.Groups = some(r.IntN(3), 3)
		}
		if odd(2) {
			n.Features = []string{"ib"}
		}
		if !n.Up && odd(3) {
			n.CPUs, n.Map, n.Allowed = nil, nil, nil
		}
		s.Nodes = append(s.Nodes, n)
		s.list = append(s.list, n.ID)
	}
	s.ask(r, odd, z)
	return s
}

// ask sets the request.
func (s *refState) ask(r *rand.Rand, odd func(int) bool, z sizeBounds) {
	s.NP = 1 + r.IntN(z.ranks)
	if odd(3) {
		s.list = nil
		for range 1 + r.IntN(z.nodes+2) {
			s.list = append(s.list, s.Nodes[r.IntN(len(s.Nodes))].ID)
		}
		s.Env["PSI_NODES"] = strings.ReplaceAll(strings.Trim(fmt.Sprint(s.list), "[]"), " ", ",")
	}
	s.sort = []string{"PROC", "LOAD_1", "LOAD_5", "LOAD_15", "PROC+LOAD", "NONE"}[r.IntN(6)]
	s.Env["PSI_NODES_SORT"] = strings.ToLower(s.sort)
	for _, name := range []string{"PSI_OVERBOOK", "PSI_LOOP_NODES_FIRST", "PSI_LOOP_NODES_FIRST", "PSI_WAIT", "PSI_EXCLUSIVE", "__PSI_NO_PINPROC", "__PSI_NO_MEMBIND"} {
		if odd(3) {
			s.Env[name] = ""
		}
	}
	if odd(3) {
		s.threads = 1 + r.IntN(3)
		s.Env["PSI_TPP"] = fmt.Sprint(s.threads)
	}
	if odd(4) {
		s.ppn = 1 + r.IntN(4)
		s.Options["ppn"] = s.ppn
	}
	if odd(6) && slices.ContainsFunc(s.Nodes, func(n refNode) bool { return n.Features != nil }) {
		s.wantedSort = "ib"
		s.Options["nodetype"] = s.wantedSort
	}
	if odd(3) {
		s.userMap = []int{r.IntN(5), r.IntN(3), r.IntN(3)}
		s.Env["__PSI_CPUMAP"] = fmt.Sprintf("%d,%d,0x%x", s.userMap[0], s.userMap[1], s.userMap[2])
	}
	if odd(5) {
		s.Ahead = r.IntN(3)
	}
}

// verdictText returns the program's result in the format of refState.plan.
func verdictText(o Outcome) string {
	var b bytes.Buffer
	Write(&b, o)
	var p struct {
		Ranks []struct {
			Node              string
			Slots, CPUs, Mems []int
		}
		Order         []string
		Overbooked    bool
		Queued, Error *struct {
			Code      string
			Position  int
			Permanent bool
		}
		Rejected []struct{ Node, Reason string }
	}
	if err := json.Unmarshal(b.Bytes(), &p); err != nil {
		return err.Error()
	}
	var rejected []string
	for _, r := range p.Rejected {
		rejected = append(rejected, r.Node+" "+r.Reason)
	}
	head := fmt.Sprint(rejected, " ")
	switch {
	case p.Queued != nil:
		return head + fmt.Sprint("queued ", p.Queued.Code, " ", p.Queued.Position)
	case p.Error != nil:
		return head + fmt.Sprint("error ", p.Error.Code, " ", p.Error.Permanent)
	}
	head += fmt.Sprint(p.Order, " ", p.Overbooked)
	for _, r := range p.Ranks {
		head += fmt.Sprint("\n", r.Node, " ", r.Slots, r.CPUs, r.Mems)
	}
	return head
}

func decideText(t *testing.T, data []byte) Outcome {
	t.Helper()
	s, err := Parse(data)
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	none := func(string) (string, bool) { return "", false }
	return s.Decide(s.PSIInput("", s.Flags, none, nil))
}

// For any cluster and request the program and the referee make the same plan.
func TestReferee(t *testing.T) {
	kinds := map[string]int{}
	cases := 20000
	if testing.Short() {
		cases = 2000
	}
	for seed := range uint64(cases) {
		s := random(rand.New(rand.NewPCG(seed, 1)))
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		want := s.plan()
		if got := verdictText(decideText(t, data)); got != want {
			t.Fatalf("seed %d: %s\n got %s\nwant %s", seed, data, got, want)
		}
		kind := "placed"
		for _, word := range []string{"queue-busy", "limit-reached", "not-enough", "no-cand", "queued"} {
			if strings.Contains(want, word) {
				kind = word
			}
		}
		kinds[kind]++
	}
	for seed := range uint64(cases / 100) {
		s := sizeBounds{40, 32, 900}.random(rand.New(rand.NewPCG(seed, 5)))
		data, _ := json.Marshal(s)
		if got, want := verdictText(decideText(t, data)), s.plan(); got != want {
			t.Fatalf("large, seed %d: %s\n got %s\nwant %s", seed, data, got, want)
		}
	}
	if len(kinds) < 6 || kinds["placed"] < cases/10 {
		t.Errorf("too little variety: %v", kinds)
	}
}

// The output is the same for any order of the nodes in the file, and whether an option is set by a flag or
// by a variable (9.3).
func TestSameBytes(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := random(r)
		data, _ := json.Marshal(s)
		want := writtenOutcome(t, data)
		r.Shuffle(len(s.Nodes), func(i, k int) { s.Nodes[i], s.Nodes[k] = s.Nodes[k], s.Nodes[i] })
		for name, option := range map[string]string{
			"PSI_OVERBOOK": "overbook", "PSI_LOOP_NODES_FIRST": "loop_nodes_first", "PSI_WAIT": "wait", "PSI_EXCLUSIVE": "exclusive",
		} {
			if _, defined := s.Env[name]; defined {
				s.Options[option] = true
				s.Env[name] = "no" // hidden by the flag, so it causes no warning
			}
		}
		for name, option := range map[string]string{"PSI_NODES": "nodes", "PSI_NODES_SORT": "sort"} {
			if value, defined := s.Env[name]; defined {
				s.Options[option] = value
				s.Env[name] = "?"
			}
		}
		data, _ = json.Marshal(s)
		if got := writtenOutcome(t, data); got != want {
			t.Fatalf("seed %d: %s\n got %s\nwant %s", seed, data, got, want)
		}
	}
}

func writtenOutcome(t *testing.T, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, decideText(t, data)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// For any input the program writes JSON and nothing else.
func FuzzState(f *testing.F) {
	for seed := range uint64(20) {
		data, _ := json.Marshal(random(rand.New(rand.NewPCG(seed, 3))))
		f.Add(data)
	}
	f.Add([]byte(`{"nodes":[{"id":0,"name":"a","cores":[{"cpus":[0,2],"numa":null},{"cpus":[1],"numa":1}]}],"np":"2"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		none := func(string) (string, bool) { return "", false }
		missing := func(string) (string, error) { return "", fmt.Errorf("no files") }
		s, err := Parse(data)
		var o Outcome
		if err != nil {
			o = ReadError(err)
		} else {
			o = s.Decide(s.PSIInput("", s.Flags, none, missing))
		}
		if o.Plan.Size*o.Threads > 1<<16 {
			return // valid, but too large for the test
		}
		var b bytes.Buffer
		if err := Write(&b, o); err != nil || !json.Valid(b.Bytes()) {
			t.Errorf("%q: %v, %s", data, err, &b)
		}
	})
}

// A saved state gives the same plan, byte for byte.
func TestSaved(t *testing.T) {
	for seed := range uint64(1000) {
		data, _ := json.Marshal(random(rand.New(rand.NewPCG(seed, 4))))
		s, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		none := func(string) (string, bool) { return "", false }
		in := s.PSIInput("", s.Flags, none, nil)
		req, _, err := s.Request(in)
		if err != nil {
			t.Fatal(err)
		}
		snap := s.Snapshot()
		for i := range snap.Nodes { // a real launch knows nothing about nodes that are down
			if snap.Nodes[i].Down != "" {
				snap.Nodes[i].Topology.Cores = nil
			}
		}
		s.Nodes = snap.Nodes
		want := verdictText(s.Decide(in))
		var file bytes.Buffer
		if err := Save(&file, req, snap); err != nil {
			t.Fatal(err)
		}
		if got := verdictText(decideText(t, file.Bytes())); got != want {
			t.Fatalf("seed %d: %s\nsaved as %s\n got %s\nwant %s", seed, data, &file, got, want)
		}
	}
}
