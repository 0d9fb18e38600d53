package simulate

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

// A stateFile is a cluster state in the format of placement.md 9.1. Fields whose default is not the zero value are
// pointers. The last block of fields in each struct is an extension that mpiexec needs for real clusters. Other
// programs that read the file may ignore these fields.
type stateFile struct {
	Version    *int               `json:"version"`
	Nodes      []node             `json:"nodes"`
	Config     config             `json:"config"`
	Env        map[string]*string `json:"env"`
	Options    options            `json:"options"`
	Files      map[string]string  `json:"files,omitempty"`
	NP         *scalarText        `json:"np,omitempty"`
	UID        int                `json:"uid"`
	GID        int                `json:"gid"`
	GIDs       []int              `json:"gids"`
	QueueAhead int                `json:"queue_ahead"`
	Waited     float64            `json:"waited,omitempty"` // seconds

	LocalOnly       bool             `json:"local_only,omitempty"`       // the job runs only on this machine (PLACE-4)
	FixedPlacements []fixedPlacement `json:"fixed_placements,omitempty"` // the node and CPUs of each rank, by a rank file
	MapBy           string           `json:"map_by,omitempty"`
	RankBy          string           `json:"rank_by,omitempty"`
	BindTo          string           `json:"bind_to,omitempty"`
	Memory          string           `json:"membind,omitempty"`
	GPUs            *int             `json:"gpus_per_proc,omitempty"` // 0 means that ranks see no GPU
}

// A fixedPlacement is the placement of one rank by a rank file. If CPUs is empty, the rank gets the next free CPUs.
type fixedPlacement struct {
	Node int    `json:"node"` // ID of the node
	CPUs string `json:"cpus,omitempty"`
}

type config struct {
	Sort *string `json:"nodes_sort"`
	selectionRules
}

type options struct {
	Nodes     *string     `json:"nodes"`
	Sort      *string     `json:"sort"`
	Nodetype  *string     `json:"nodetype"`
	Map       *string     `json:"cpu_map"`
	TPP       *scalarText `json:"tpp"`
	PPN       *scalarText `json:"ppn"`
	Unique    *bool       `json:"hosts_unique"`
	Exclusive *bool       `json:"exclusive"`
	Overbook  *bool       `json:"overbook"`
	Share     bool        `json:"oversubscribe,omitempty"`
	Gang      bool        `json:"gang,omitempty"`
	Loop      *bool       `json:"loop_nodes_first"`
	Wait      *bool       `json:"wait"`
	Pin       *bool       `json:"pin"`
	MemBind   *bool       `json:"mem_bind"`
	selectionOptions
}

type node struct {
	ID      *int     `json:"id"`
	Name    *string  `json:"name"`
	Aliases []string `json:"aliases"`

	Reachable *bool  `json:"up"`
	CPUs      *int   `json:"cpus,omitempty"`
	Threads   *int   `json:"threads_per_core,omitempty"`
	NUMA      *int   `json:"numa_nodes,omitempty"`
	Cores     []core `json:"cores,omitempty"`
	Allowed   *[]int `json:"allowed_cpus"`

	Procs        int        `json:"procs"`
	BoundProcs   int        `json:"bound_procs,omitempty"` // extension: how many of procs have all their CPUs in busy_cpus
	BusyCPUs     []int      `json:"busy_cpus"`
	SharedCPUs   []int      `json:"shared_cpus,omitempty"` // extension: those of busy_cpus that belong to jobs that share CPUs
	Gangs        *gangs     `json:"gangs,omitempty"`       // extension
	ExclusiveJob bool       `json:"exclusive_job"`
	Load         []*float64 `json:"load"`

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
	Quality    job.SpeedQuality           `json:"speed_quality,omitempty"` // extension: how PROCSPEED was found; empty if it is given
	Classes    []string                   `json:"classes,omitzero"`
	Flavors    []string                   `json:"flavors,omitzero"`
	Reserve    int                        `json:"reserve,omitempty"`
	Global     bool                       `json:"global,omitempty"`

	Slots    int    `json:"slots,omitempty"`     // written slots: host:8
	MaxSlots int    `json:"max_slots,omitempty"` // HOST-11
	BindTo   string `json:"bind_to,omitempty"`   // replaces that of the job
	Confined bool   `json:"confined,omitempty"`  // no rank may leave the allowed CPUs, bound or not
	Identity string `json:"identity,omitempty"`  // of the machine (HOST-8)
	MemTotal int64  `json:"mem_total,omitempty"` // bytes
	MemFree  int64  `json:"mem_available,omitempty"`

	HugePages *hugePages `json:"huge_pages,omitempty"` // extension; nil if not known

	GPUs         []gpu.GPU `json:"gpus,omitempty"` // GPUs that may be used
	WithheldGPUs int       `json:"withheld_gpus,omitempty"`
	BusyGPUs     []string  `json:"busy_gpus,omitempty"` // addresses of the GPUs that running jobs use
}

// hugePages describes the huge pages of a node. Size is 0 if the node has none.
type hugePages struct {
	Size  int64 `json:"size"` // bytes
	Total int64 `json:"total"`
	Free  int64 `json:"free"`
}

// Parse parses a cluster state. If it fails, the error is a *psi.Error.
func Parse(data []byte) (*State, error) {
	var f stateFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, wrongJSON(err)
	}
	if f.Version != nil && *f.Version != 1 {
		return nil, stateError(fmt.Sprintf("version %d is not supported, only version 1", *f.Version))
	}
	if f.Nodes == nil {
		return nil, stateError("the list of nodes is missing")
	}
	s := &State{
		Env: f.Env, Files: f.Files, QueueAhead: f.QueueAhead, LocalOnly: f.LocalOnly,
		User:  job.User{UID: f.UID, GID: f.GID, GIDs: f.GIDs},
		Nodes: make([]job.Node, len(f.Nodes)),
	}
	if f.Config.Sort != nil {
		s.Sort = *f.Config.Sort
	}
	switch {
	case f.GPUs == nil:
	case *f.GPUs < 0:
		return nil, stateError("gpus_per_proc is negative")
	case *f.GPUs == 0:
		s.GPUs = job.NoGPUs
	default:
		s.GPUs = *f.GPUs
	}
	if f.QueueAhead < 0 {
		return nil, stateError("queue_ahead is negative")
	}
	s.readOptions(&f)
	if err := s.readSelection(&f); err != nil {
		return nil, err
	}
	if err := s.readNodes(f.Nodes); err != nil {
		return nil, err
	}
	sortByID(s.Nodes)
	if err := s.checkAttributeKinds(); err != nil {
		return nil, err
	}
	if err := s.readFixedPlacements(f.FixedPlacements); err != nil {
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
			return nil, stateError(err.Error())
		}
	}
	return s, nil
}

// wrongJSON converts an error from encoding/json to an error that names the key with the invalid value. It leaves out
// the names of embedded structs.
func wrongJSON(err error) error {
	wrong, known := errors.AsType[*json.UnmarshalTypeError](err)
	if !known || wrong.Field == "" {
		return stateError(err.Error())
	}
	key := strings.NewReplacer(".selectionOptions", "", ".selectionRules", "").Replace(wrong.Field)
	return stateError(fmt.Sprintf("%s cannot be %s", key, wrong.Value))
}

// readFixedPlacements stores fixed placements in s, and finds the nodes that they name. s.Nodes must be sorted.
func (s *State) readFixedPlacements(placements []fixedPlacement) error {
	index := make(map[int]int, len(s.Nodes))
	for i, n := range s.Nodes {
		index[n.ID] = i
	}
	for rank, placement := range placements {
		i, known := index[placement.Node]
		if !known {
			return stateError(fmt.Sprintf("rank %d is placed on node %d, which does not exist", rank, placement.Node))
		}
		var ranges []pin.CPURange
		if placement.CPUs != "" {
			var err error
			if ranges, err = pin.ParseCPURanges(placement.CPUs); err != nil {
				return stateError(fmt.Sprintf("the CPUs of rank %d are not valid: %v", rank, err))
			}
		}
		s.FixedPlacements = append(s.FixedPlacements, job.FixedPlacement{Node: i, Picks: ranges})
	}
	return nil
}

// readOptions reads the options of the job, except the options for choosing nodes, which readSelection reads.
func (s *State) readOptions(f *stateFile) {
	o := f.Options
	s.Flags = psi.Flags{
		Nodes: o.Nodes, Sort: o.Sort, Features: o.Nodetype, CPUMap: o.Map, HostsUnique: o.Unique, Exclusive: o.Exclusive,
		Overbook: o.Overbook, Oversubscribe: o.Share, Loop: o.Loop, Wait: o.Wait, Pin: o.Pin, MemBind: o.MemBind,
		TPP: (*string)(o.TPP), PPN: (*string)(o.PPN),
	}
	s.Gang = o.Gang
	if f.NP != nil {
		s.NP = string(*f.NP)
	}
}

// readNodes reads the nodes of the state file. It returns an error if two nodes have the same ID, or if two
// names or aliases are the same, ignoring case.
func (s *State) readNodes(nodes []node) error {
	ids := make(map[int]bool, len(nodes))
	names := make(map[string]bool, len(nodes))
	known := make(topologies)
	for i := range nodes {
		n := &nodes[i]
		if n.ID == nil || *n.ID < 0 || n.Name == nil || *n.Name == "" {
			return stateError(fmt.Sprintf("node %d of the list must have a name and an id of at least 0", i))
		}
		if ids[*n.ID] {
			return stateError(fmt.Sprintf("two nodes have the ID %d", *n.ID))
		}
		ids[*n.ID] = true
		own := append([]string{*n.Name}, n.Aliases...)
		for k, name := range own {
			own[k] = strings.ToLower(name)
			if names[own[k]] {
				return stateError(fmt.Sprintf("two nodes have the name %q", name))
			}
		}
		for _, name := range own { // a node may have one name twice
			names[name] = true
		}
		var err error
		if s.Nodes[i], err = n.toNode(known); err != nil {
			return stateError(fmt.Sprintf("node %s: %s", *n.Name, err))
		}
	}
	return nil
}

// toNode converts a node of the state file to a job.Node.
func (n *node) toNode(known topologies) (job.Node, error) {
	policy, err := n.readPolicy()
	if err != nil {
		return job.Node{}, err
	}
	probed, err := n.readAttributes(&policy)
	if err != nil {
		return job.Node{}, err
	}
	topology, err := known.topologyOf(n)
	if err != nil {
		return job.Node{}, err
	}
	if n.Procs < 0 {
		return job.Node{}, fmt.Errorf("\"procs\" is negative")
	}
	if n.BoundProcs < 0 || n.BoundProcs > n.Procs {
		return job.Node{}, fmt.Errorf("bound_procs is %d, but must be from 0 to procs, which is %d", n.BoundProcs, n.Procs)
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
		if len(topology.Cores) > 0 && !topology.HasUnit(number, n.CountThreads) {
			return job.Node{}, fmt.Errorf("cpu_map names core %d, which the node does not have", number)
		}
	}
	huge, err := n.readHugePages()
	if err != nil {
		return job.Node{}, err
	}
	result := job.Node{
		Confined: n.Confined,
		NodeDef: job.NodeDef{ID: *n.ID, Name: *n.Name, Host: *n.Name, Aliases: n.Aliases, NodePolicy: policy,
			Slots: max(0, n.Slots), MaxSlots: max(0, n.MaxSlots), Bind: bind},
		ProbedAttributes: probed,
		Occupancy:        job.Occupancy{Ranks: n.Procs, BoundRanks: n.BoundProcs, BusyCPUs: n.BusyCPUs, SharedCPUs: n.SharedCPUs, ExclusivelyHeld: n.ExclusiveJob, BusyGPUs: n.BusyGPUs},
		Probe: job.Probe{Identity: n.Identity, Topology: topology, Load: [3]float64{-1, -1, -1},
			Memory: job.Memory{Total: n.MemTotal, Available: n.MemFree, HugePages: huge}, GPUs: n.GPUs, WithheldGPUs: n.WithheldGPUs},
	}
	if err := n.Gangs.read(&result); err != nil {
		return job.Node{}, err
	}
	if !trueUnlessFalse(n.Reachable) {
		result.Down = "no answer to the probe"
	}
	for i := range min(len(n.Load), len(result.Load)) {
		if n.Load[i] != nil {
			result.Load[i] = *n.Load[i]
		}
	}
	return result, nil
}

// readHugePages returns the node's huge pages. It returns an error if the numbers in the file are not valid.
func (n *node) readHugePages() (h job.HugePages, err error) {
	if n.HugePages == nil {
		return h, nil
	}
	h = job.HugePages{Probed: true, Size: n.HugePages.Size, Total: n.HugePages.Total, Free: n.HugePages.Free}
	if h.Size < 0 || h.Size > 1<<60 || h.Free < 0 || h.Free > h.Total || h.Size == 0 && h.Total > 0 {
		return h, fmt.Errorf("huge_pages: the values size %d, total %d and free %d are not possible", h.Size, h.Total, h.Free)
	}
	return h, nil
}

// checkGPUs returns an error if a GPU has no unique address, a negative index or an unknown vendor.
func checkGPUs(gpus []gpu.GPU) error {
	seen := make(map[string]bool)
	for _, g := range gpus {
		if !g.Vendor.Known() {
			return fmt.Errorf("the GPU vendor %q is not nvidia, amd or intel", g.Vendor)
		}
		if g.Address == "" || seen[g.Address] || g.Index < 0 {
			return fmt.Errorf("each GPU must have a unique address and an index of at least 0")
		}
		seen[g.Address] = true
	}
	return nil
}

// readPolicy returns the rules that the administrator has set for the node (placement.md 1.8).
func (n *node) readPolicy() (job.NodePolicy, error) {
	overbook := "yes"
	if n.Overbook != nil {
		overbook = *n.Overbook
	}
	if overbook != "yes" && overbook != "no" && overbook != "auto" {
		return job.NodePolicy{}, fmt.Errorf("overbook %q is not yes, no or auto", overbook)
	}
	if n.MaxProcs != nil && *n.MaxProcs < 0 {
		return job.NodePolicy{}, fmt.Errorf("max_procs is negative")
	}
	attributes, err := readAttributes(n.Attributes)
	if err != nil {
		return job.NodePolicy{}, err
	}
	if n.Reserve < 0 {
		return job.NodePolicy{}, fmt.Errorf("\"reserve\" is negative")
	}
	return job.NodePolicy{
		Attributes: attributes, Classes: n.Classes, Flavors: n.Flavors, Reserve: n.Reserve, InAllSets: n.Global,
		NoJobs: !trueUnlessFalse(n.RunJobs), Users: n.Users, Groups: n.Groups, MaxProcs: n.MaxProcs, Features: n.Features,
		NoOverbook: overbook == "no", NoExclusive: !trueUnlessFalse(n.Exclusive), CPUMap: n.CPUMap, UserCPUMap: n.UserMap,
		NoPin: !trueUnlessFalse(n.Pin), NoMemBind: !trueUnlessFalse(n.MemBind), CountThreads: n.CountThreads,
	}, nil
}

// trueUnlessFalse returns the value of a switch that is on by default. It returns true if p is nil.
func trueUnlessFalse(p *bool) bool { return p == nil || *p }
