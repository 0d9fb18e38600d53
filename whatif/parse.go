package whatif

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
	"remshell/psi"
)

// A stateFile is the format of 9.1. Fields whose default is not Go's are pointers. Those in
// the last block of each struct are ours: a real cluster has them, and others who read
// the file may leave them out of account.
type stateFile struct {
	Version *int               `json:"version"`
	Nodes   []node             `json:"nodes"`
	Config  config             `json:"config"`
	Env     map[string]*string `json:"env"`
	Options options            `json:"options"`
	Files   map[string]string  `json:"files,omitempty"`
	NP      *word              `json:"np,omitempty"`
	UID     int                `json:"uid"`
	GID     int                `json:"gid"`
	GIDs    []int              `json:"gids"`
	Ahead   int                `json:"queue_ahead"`
	Waited  float64            `json:"waited,omitempty"` // seconds

	TryOut bool   `json:"try_out,omitempty"` // this machine alone (PLACE-4)
	Spots  []spot `json:"spots,omitempty"`   // where each rank was told to go
	MapBy  string `json:"map_by,omitempty"`
	RankBy string `json:"rank_by,omitempty"`
	BindTo string `json:"bind_to,omitempty"`
	Memory string `json:"membind,omitempty"`
	GPUs   *int   `json:"gpus_per_proc,omitempty"` // 0: none is to be seen
}

// A spot is the place of a rank; no CPUs: the next ones that are free.
type spot struct {
	Node int    `json:"node"` // its ID
	CPUs string `json:"cpus,omitempty"`
}

type config struct {
	Sort *string `json:"nodes_sort"`
	rules
}

type options struct {
	Nodes     *string `json:"nodes"`
	Sort      *string `json:"sort"`
	Nodetype  *string `json:"nodetype"`
	Map       *string `json:"cpu_map"`
	TPP       *word   `json:"tpp"`
	PPN       *word   `json:"ppn"`
	Unique    *bool   `json:"hosts_unique"`
	Exclusive *bool   `json:"exclusive"`
	Overbook  *bool   `json:"overbook"`
	Share     bool    `json:"oversubscribe,omitempty"`
	Loop      *bool   `json:"loop_nodes_first"`
	Wait      *bool   `json:"wait"`
	Pin       *bool   `json:"pin"`
	MemBind   *bool   `json:"mem_bind"`
	choosing
}

type node struct {
	ID      *int     `json:"id"`
	Name    *string  `json:"name"`
	Aliases []string `json:"aliases"`

	Up      *bool  `json:"up"`
	CPUs    *int   `json:"cpus,omitempty"`
	Threads *int   `json:"threads_per_core,omitempty"`
	NUMA    *int   `json:"numa_nodes,omitempty"`
	Cores   []core `json:"cores,omitempty"`
	Allowed *[]int `json:"allowed_cpus"`

	Procs int        `json:"procs"`
	Seats int        `json:"seated,omitempty"` // ours: of procs, those whose CPUs are all in busy_cpus
	Busy  []int      `json:"busy_cpus"`
	Share []int      `json:"shared_cpus,omitempty"` // ours: of busy_cpus, those of jobs that share CPUs
	Taken bool       `json:"exclusive_job"`
	Load  []*float64 `json:"load"`

	RunJobs      *bool    `json:"run_jobs"`
	Users        []int    `json:"users"`
	Groups       []int    `json:"groups"`
	MaxProcs     *int     `json:"max_procs"`
	Features     []string `json:"features"`
	Overbook     *string  `json:"overbook"`
	Exclusive    *bool    `json:"allow_exclusive"`
	CPUMap       []int    `json:"cpu_map"`
	UserMap      bool     `json:"allow_user_map"`
	Pin          *bool    `json:"pin_procs"`
	MemBind      *bool    `json:"bind_mem"`
	CountThreads bool     `json:"count_threads"`

	Attributes map[string]json.RawMessage `json:"attributes,omitempty"`
	Quality    job.Quality                `json:"speed_quality,omitempty"` // ours: how PROCSPEED was found; empty: it is given
	Classes    []string                   `json:"classes,omitzero"`
	Flavors    []string                   `json:"flavors,omitzero"`
	Reserve    int                        `json:"reserve,omitempty"`
	Global     bool                       `json:"global,omitempty"`

	Slots    int    `json:"slots,omitempty"`     // written down for it: host:8
	MaxSlots int    `json:"max_slots,omitempty"` // HOST-11
	BindTo   string `json:"bind_to,omitempty"`   // in the place of the job's
	Fenced   bool   `json:"fenced,omitempty"`    // no rank may leave the allowed CPUs, bound or not
	Identity string `json:"identity,omitempty"`  // of the machine (HOST-8)
	MemTotal int64  `json:"mem_total,omitempty"` // bytes
	MemFree  int64  `json:"mem_available,omitempty"`

	Huge *hugePages `json:"huge_pages,omitempty"` // ours; nil: not known

	GPUs     []gpu.GPU `json:"gpus,omitempty"` // that may be used
	Barred   int       `json:"barred_gpus,omitempty"`
	BusyGPUs []string  `json:"busy_gpus,omitempty"` // addresses of those that live jobs have
}

// hugePages are those of a node; of no size: there are none.
type hugePages struct {
	Size  int64 `json:"size"` // bytes
	Total int64 `json:"total"`
	Free  int64 `json:"free"`
}

// Parse reads a cluster state. The error is a *psi.Error.
func Parse(data []byte) (*State, error) {
	var f stateFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, wrongJSON(err)
	}
	if f.Version != nil && *f.Version != 1 {
		return nil, bad(fmt.Sprintf("version %d; this program knows version 1", *f.Version))
	}
	if f.Nodes == nil {
		return nil, bad("nodes are missing")
	}
	s := &State{
		Env: f.Env, Files: f.Files, Ahead: f.Ahead, TryOut: f.TryOut,
		User:  job.User{UID: f.UID, GID: f.GID, GIDs: f.GIDs},
		Nodes: make([]job.Node, len(f.Nodes)),
	}
	if f.Config.Sort != nil {
		s.Sort = *f.Config.Sort
	}
	switch {
	case f.GPUs == nil:
	case *f.GPUs < 0:
		return nil, bad("gpus_per_proc is negative")
	case *f.GPUs == 0:
		s.GPUs = job.NoGPUs
	default:
		s.GPUs = *f.GPUs
	}
	if f.Ahead < 0 {
		return nil, bad("queue_ahead is negative")
	}
	s.readOptions(&f)
	if err := s.readChoosing(&f); err != nil {
		return nil, err
	}
	if err := s.readNodes(f.Nodes); err != nil {
		return nil, err
	}
	byID(s.Nodes)
	if err := s.judgeKinds(); err != nil {
		return nil, err
	}
	if err := s.readSpots(f.Spots); err != nil {
		return nil, err
	}
	for _, policy := range []struct {
		text string
		into encoding.TextUnmarshaler
	}{{f.MapBy, &s.Layout.Map}, {f.RankBy, &s.Layout.Rank}, {f.BindTo, &s.Layout.Bind}, {f.Memory, &s.Layout.Mem}} {
		if policy.text == "" {
			continue
		}
		if err := policy.into.UnmarshalText([]byte(policy.text)); err != nil {
			return nil, bad(err.Error())
		}
	}
	return s, nil
}

// wrongJSON names the key whose value cannot be read, without the names of embedded structs.
func wrongJSON(err error) error {
	wrong, known := errors.AsType[*json.UnmarshalTypeError](err)
	if !known || wrong.Field == "" {
		return bad(err.Error())
	}
	key := strings.NewReplacer(".choosing", "", ".rules", "").Replace(wrong.Field)
	return bad(fmt.Sprintf("%s cannot be %s", key, wrong.Value))
}

// readSpots finds the nodes of the spots, which are sorted by now.
func (s *State) readSpots(spots []spot) error {
	index := make(map[int]int, len(s.Nodes))
	for i, n := range s.Nodes {
		index[n.ID] = i
	}
	for rank, spot := range spots {
		i, known := index[spot.Node]
		if !known {
			return bad(fmt.Sprintf("rank %d has its spot on node %d, which there is not", rank, spot.Node))
		}
		var picks []pin.Pick
		if spot.CPUs != "" {
			var err error
			if picks, err = pin.ParsePicks(spot.CPUs); err != nil {
				return bad(fmt.Sprintf("spot of rank %d: %v", rank, err))
			}
		}
		s.Spots = append(s.Spots, job.Spot{Node: i, Picks: picks})
	}
	return nil
}

// readOptions reads what the job asks for, but for what choosing has.
func (s *State) readOptions(f *stateFile) {
	o := f.Options
	s.Flags = psi.Flags{
		Nodes: o.Nodes, Sort: o.Sort, Types: o.Nodetype, Map: o.Map, Unique: o.Unique, Exclusive: o.Exclusive,
		Overbook: o.Overbook, Share: o.Share, Loop: o.Loop, Wait: o.Wait, Pin: o.Pin, MemBind: o.MemBind,
		TPP: (*string)(o.TPP), PPN: (*string)(o.PPN),
	}
	if f.NP != nil {
		s.NP = string(*f.NP)
	}
}

// readNodes reads the nodes; IDs are unique, and names and aliases, ignoring case.
func (s *State) readNodes(nodes []node) error {
	ids := make(map[int]bool, len(nodes))
	names := make(map[string]bool, len(nodes))
	shapes := make(shapes)
	for i := range nodes {
		n := &nodes[i]
		if n.ID == nil || *n.ID < 0 || n.Name == nil || *n.Name == "" {
			return bad(fmt.Sprintf("node %d of the list needs an id of at least 0 and a name", i))
		}
		if ids[*n.ID] {
			return bad(fmt.Sprintf("two nodes have the ID %d", *n.ID))
		}
		ids[*n.ID] = true
		own := append([]string{*n.Name}, n.Aliases...)
		for k, name := range own {
			own[k] = strings.ToLower(name)
			if names[own[k]] {
				return bad(fmt.Sprintf("two nodes have the name %q", name))
			}
		}
		for _, name := range own { // a node may repeat its own
			names[name] = true
		}
		var err error
		if s.Nodes[i], err = n.read(shapes); err != nil {
			return bad(fmt.Sprintf("node %s: %s", *n.Name, err))
		}
	}
	return nil
}

// read turns one entry into a node.
func (n *node) read(shapes shapes) (job.Node, error) {
	policy, err := n.policy()
	if err != nil {
		return job.Node{}, err
	}
	traits, err := n.traits(&policy)
	if err != nil {
		return job.Node{}, err
	}
	topology, err := shapes.of(n)
	if err != nil {
		return job.Node{}, err
	}
	if n.Procs < 0 {
		return job.Node{}, fmt.Errorf("procs is negative")
	}
	if n.Seats < 0 || n.Seats > n.Procs {
		return job.Node{}, fmt.Errorf("seated is %d of %d procs", n.Seats, n.Procs)
	}
	var bind *pin.Binding
	if n.BindTo != "" {
		bind = new(pin.Binding)
		if err := bind.UnmarshalText([]byte(n.BindTo)); err != nil {
			return job.Node{}, fmt.Errorf("bind_to: %w", err)
		}
	}
	if err := checkGPUs(n.GPUs); err != nil {
		return job.Node{}, err
	}
	for _, number := range n.CPUMap {
		if len(topology.Cores) > 0 && !topology.Has(number, n.CountThreads) {
			return job.Node{}, fmt.Errorf("cpu_map names core %d, which the node lacks", number)
		}
	}
	huge, err := n.hugePages()
	if err != nil {
		return job.Node{}, err
	}
	result := job.Node{
		Fenced: n.Fenced,
		NodeDef: job.NodeDef{ID: *n.ID, Name: *n.Name, Host: *n.Name, Aliases: n.Aliases, Policy: policy,
			Slots: max(0, n.Slots), MaxSlots: max(0, n.MaxSlots), Bind: bind},
		Traits: traits,
		Use:    job.Use{Procs: n.Procs, Seated: n.Seats, Busy: n.Busy, Shared: n.Share, Taken: n.Taken, BusyGPUs: n.BusyGPUs},
		Probe: job.Probe{Identity: n.Identity, Topology: topology, Load: [3]float64{-1, -1, -1},
			Memory: job.Memory{Total: n.MemTotal, Available: n.MemFree, Huge: huge}, GPUs: n.GPUs, Barred: n.Barred},
	}
	if !yes(n.Up) {
		result.Down = "no answer to the probe"
	}
	for i := range min(len(n.Load), len(result.Load)) {
		if n.Load[i] != nil {
			result.Load[i] = *n.Load[i]
		}
	}
	return result, nil
}

// hugePages takes those of a node.
func (n *node) hugePages() (h job.HugePages, err error) {
	if n.Huge == nil {
		return h, nil
	}
	h = job.HugePages{Known: true, Size: n.Huge.Size, Total: n.Huge.Total, Free: n.Huge.Free}
	if h.Size < 0 || h.Size > 1<<60 || h.Free < 0 || h.Free > h.Total || h.Size == 0 && h.Total > 0 {
		return h, fmt.Errorf("huge_pages: %d free of %d, of %d bytes each", h.Free, h.Total, h.Size)
	}
	return h, nil
}

// checkGPUs refuses GPUs that cannot be told apart, or of vendors we know no variable of.
func checkGPUs(gpus []gpu.GPU) error {
	seen := make(map[string]bool)
	for _, g := range gpus {
		if !g.Vendor.Known() {
			return fmt.Errorf("vendor %q of a GPU is not nvidia, amd or intel", g.Vendor)
		}
		if g.Address == "" || seen[g.Address] || g.Index < 0 {
			return fmt.Errorf("a GPU needs an address of its own and an index of at least 0")
		}
		seen[g.Address] = true
	}
	return nil
}

// policy is what the administrator says of the node (1.8).
func (n *node) policy() (job.Policy, error) {
	overbook := "yes"
	if n.Overbook != nil {
		overbook = *n.Overbook
	}
	if overbook != "yes" && overbook != "no" && overbook != "auto" {
		return job.Policy{}, fmt.Errorf("overbook %q is not yes, no or auto", overbook)
	}
	if n.MaxProcs != nil && *n.MaxProcs < 0 {
		return job.Policy{}, fmt.Errorf("max_procs is negative")
	}
	attributes, err := readAttributes(n.Attributes)
	if err != nil {
		return job.Policy{}, err
	}
	if n.Reserve < 0 {
		return job.Policy{}, fmt.Errorf("reserve is negative")
	}
	return job.Policy{
		Attributes: attributes, Classes: n.Classes, Flavors: n.Flavors, Reserve: n.Reserve, Global: n.Global,
		NoJobs: !yes(n.RunJobs), Users: n.Users, Groups: n.Groups, MaxProcs: n.MaxProcs, Features: n.Features,
		NoOverbook: overbook == "no", NoExclusive: !yes(n.Exclusive), CPUMap: n.CPUMap, UserMap: n.UserMap,
		NoPin: !yes(n.Pin), NoMemBind: !yes(n.MemBind), CountThreads: n.CountThreads,
	}, nil
}

// yes is a switch that is on unless it is switched off.
func yes(p *bool) bool { return p == nil || *p }
