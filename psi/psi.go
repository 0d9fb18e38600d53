/*
Package psi reads what users of ParaStation say about placement: the PSI_* variables
and the flags of the same meaning, each against the cluster configuration.

	flags  >  environment  >  configuration  >  built-in
	                 |
	               Read --> Choice: nodes and turns, sort key, switches, TPP, map
	                        warnings
	                        or the first error, in the order of placement.md 1.5

It is pure: the environment is a function, files are opened by a function. A value
that a higher source hides is not read at all. What -host and -hostfile name is not
its business (package hostlist); with them, the list variables do not count.
*/
package psi

import (
	"strings"

	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/sort"
)

// An Input is all that can be said about a placement.
type Input struct {
	NP     string        // number of processes, of -n; empty: not given
	Nodes  []job.NodeDef // the configured cluster, ascending by ID
	AdHoc  bool          // there is no configuration: the names of a list make the cluster
	Sort   string        // PSINodesSort of the configuration
	Listed bool          // -host or -hostfile name the nodes
	Types  []string      // features of these, as they name them
	Env    func(name string) (value string, defined bool)
	Flags  Flags
	Rules  job.Rules // of the cluster, about which nodes a job gets
	User   job.User  // who asks
	Placed bool      // each rank has its place by a rank file, or map
	Open   func(name string) (text string, err error)
}

// Flags are options of the command line; nil means not given.
type Flags struct {
	Nodes, Sort, Types, Map, TPP, PPN                     *string
	Unique, Exclusive, Overbook, Loop, Wait, Pin, MemBind *bool
	Share                                                 bool // --oversubscribe; it wins over PSI_OVERBOOK

	Choosing
}

// Choosing are the flags about which nodes a job gets.
type Choosing struct {
	Sets                                           nodeset.Level // --node-set, --node-set-*
	Class, NodeAlloc, ReserveCPUs, MemPerRank      *string
	Contiguous                                     *string // first, best
	Shape, PerNUMA, NUMANodes, NUMAList, HWThreads *string // of a section
	StrictMem                                      *bool   // of a section
}

// A Choice is what was said, with all defaults filled in.
type Choice struct {
	Nodes []job.NodeDef // the cluster, or what the list made
	Turns []int         // indices into Nodes, in list order with repeats; nil if Listed
	From  string        // the source of the list; empty: all nodes
	job.Placing
	job.Share
	Warnings []job.Note
}

// Read judges everything. With an error, which is an *Error, the choice holds only
// the warnings until then.
func Read(in Input) (Choice, error) {
	var c Choice
	c.switches(in)
	for _, step := range []func(*Choice, Input) error{
		(*Choice).processes, (*Choice).list, (*Choice).sorting, (*Choice).share, (*Choice).cpuMap,
		(*Choice).class, (*Choice).sets, (*Choice).shape, (*Choice).numa, (*Choice).hwThreads, (*Choice).reserve, (*Choice).memory,
		(*Choice).contiguous, (*Choice).nodeAlloc, (*Choice).affinity, (*Choice).regions,
	} {
		if err := step(&c, in); err != nil {
			return Choice{Warnings: c.Warnings}, err
		}
	}
	return c, nil
}

// Part reads what one more section of a command line may say for itself (5.7).
func Part(in Input) (job.Share, error) {
	var c Choice
	for _, step := range []func(*Choice, Input) error{(*Choice).share, (*Choice).shape, (*Choice).numa, (*Choice).hwThreads} {
		if err := step(&c, in); err != nil {
			return c.Share, err
		}
	}
	return c.Share, nil
}

// processes checks the number of processes.
func (c *Choice) processes(in Input) error {
	if in.NP == "" {
		return nil
	}
	if _, ok := number(in.NP, 1, maxRanks); !ok {
		return &Error{Code: "bad-np", Source: "-n", Token: in.NP, What: "bad number of processes", Allowed: []string{"1-1048576"}}
	}
	return nil
}

// maxRanks bounds the number of processes (1.5).
const maxRanks = 1 << 20

// sorting finds the sort key (4.1). The configured one is checked also when another
// is used: it is a mistake of the configuration all the same.
func (c *Choice) sorting(in Input) error {
	mode := sort.Proc
	if in.Sort != "" {
		var err error
		if mode, err = sortKey("PSINodesSort", in.Sort, false); err != nil {
			return err
		}
	}
	value, defined := in.Env("PSI_NODES_SORT")
	var err error
	switch {
	case in.Flags.Sort != nil:
		mode, err = sortKey("--sort", *in.Flags.Sort, true)
	case in.Listed:
		mode = sort.None
	case defined:
		mode, err = sortKey("PSI_NODES_SORT", value, false)
	}
	c.Sort = string(mode)
	return err
}

func sortKey(source, value string, flag bool) (sort.Mode, error) {
	value = strip(value)
	mode, err := sort.Parse(value, flag)
	if err != nil {
		return "", &Error{Code: "bad-sort", Source: source, Token: value, What: "unknown sort criterion", Allowed: sort.Words(flag)}
	}
	return mode, nil
}

// blanks are what may stand around a value (1.1).
const blanks = " \t\n\r\f\v"

func strip(value string) string { return strings.Trim(value, blanks) }
