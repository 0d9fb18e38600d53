//go:build linux

package rank

import (
	"bytes"
	"net"
	"slices"
	"strconv"
	"strings"

	"remshell/batch"
	"remshell/gpu"
	"remshell/idset"
	"remshell/job"
)

// An Identity describes the place of a rank in the job and on the node. The rank's environment is built
// from it.
type Identity struct {
	Job                        job.ID
	Size, Nodes, Node          int
	Host                       string // node name as the user wrote it
	Address                    string // where peers reach the node; empty: unknown
	Iface                      string // interface of Address, as the user named it
	Compat                     []string
	Rendezvous                 string   // address:port of torch's rendezvous; empty: none
	Ledger                     string   // directory of the claims; empty: the default
	Variables                  []string // of features: NAME=VALUE
	Rank, LocalRank, LocalSize int
	App                        int
	EarlierRanks               int // ranks that earlier groups of the job had on the node
	Spawned                    bool
	Offer                      job.PMIOffer // PMI protocol; zero: PMI
	PMIx                       *PMIx        // nil: not offered
	PMIFD                      int          // descriptor of the PMI connection; 0: none
	PMIPort                    string       // PMI_PORT, with PMI_ID id; empty: none
	PMIID                      int
	Slots                      []int     // the rank's slots on the node
	NodeSlots                  int       // number of slots of the node
	CPUs                       []int     // to which the rank is bound; nil: not bound
	NodeCPUs                   int       // one more than the node's highest CPU number
	GPUs                       []gpu.GPU // the rank's own
	NoGPUs                     bool      // the rank gets no GPU
	Places                     job.OMPPlaces
}

// commonVars returns the variables that every rank gets (cli.md 8, pmi-wire.md 1.1).
func (id Identity) commonVars() []string {
	host := id.Host
	vars := []string{
		"MPI_LOCALRANKID=" + strconv.Itoa(id.LocalRank),
		"MPI_LOCALNRANKS=" + strconv.Itoa(id.LocalSize),
		"MPIEXEC_JOBID=" + string(id.Job),
		"MPIEXEC_RANK=" + strconv.Itoa(id.Rank),
		"MPIEXEC_SIZE=" + strconv.Itoa(id.Size),
		"MPIEXEC_LOCAL_RANK=" + strconv.Itoa(id.LocalRank),
		"MPIEXEC_LOCAL_SIZE=" + strconv.Itoa(id.LocalSize),
		"MPIEXEC_NODE_RANK=" + strconv.Itoa(id.Node),
		"MPIEXEC_NNODES=" + strconv.Itoa(id.Nodes),
		"MPIEXEC_APPNUM=" + strconv.Itoa(id.App),
		"MPIEXEC_HOST=" + host,
	}
	vars = append(vars, id.pmiVars()...)
	vars = append(vars, id.pinningVars()...)
	if id.Ledger != "" { // an mpiexec inside the rank must find the job's claim
		vars = append(vars, "MPIEXEC_LEDGER="+id.Ledger)
	}
	vars = append(vars, id.Variables...)
	if id.Address != "" {
		vars = append(vars, "PMI_HOSTNAME="+id.Address)
	}
	return vars
}

// setAddress sets the variables that tell MPICH at which address other nodes reach this node, and which interface to
// use. It leaves out variables that the user has set.
func (id Identity) setAddress(v *envBuilder) {
	if id.Address != "" {
		v.setDefault("MPIR_CVAR_CH3_INTERFACE_HOSTNAME", id.Address)
	}
	if id.Iface != "" && !strings.Contains(id.Iface, "/") {
		v.setDefault("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", id.Iface)
	}
}

// pmiVars returns the variables by which a rank finds its PMI server. It returns none if PMI is not offered
// to the rank.
func (id Identity) pmiVars() []string {
	if id.Offer != "" && !id.Offer.OffersPMI() {
		return nil
	}
	vars := []string{"PMI_RANK=" + strconv.Itoa(id.Rank), "PMI_SIZE=" + strconv.Itoa(id.Size)}
	if id.PMIPort != "" {
		vars = append(vars, "PMI_PORT="+id.PMIPort, "PMI_ID="+strconv.Itoa(id.PMIID))
	} else {
		vars = append(vars, "PMI_FD="+strconv.Itoa(id.PMIFD))
	}
	if id.Spawned {
		vars = append(vars, "PMI_SPAWNED=1")
	}
	return vars
}

// pinningVars returns the variables that describe a rank's slots and CPUs. These are the variables of ParaStation
// (placement.md 7.6), and MPIEXEC_BINDING, which contains the CPUs in the kernel's list format.
func (id Identity) pinningVars() []string {
	var vars []string
	if len(id.Slots) > 0 {
		vars = append(vars, "PSID_CPU_PINNING="+slotMask(id.Slots, id.NodeSlots))
	}
	if id.CPUs == nil {
		return append(vars, "MPIEXEC_BINDING=none")
	}
	return append(vars, "__PINNING__="+cpuBits(id.CPUs, id.NodeCPUs), "MPIEXEC_BINDING="+idset.Text(id.CPUs))
}

// slotMask returns slots as a hexadecimal mask, such as "0x0003". count is the number of slots of the node. The mask
// has four digits for each 16 slots, rounded up.
func slotMask(slots []int, count int) string {
	count = max(count, slots[len(slots)-1]+1)
	digits := bytes.Repeat([]byte{'0'}, (count+15)/16*4)
	for _, slot := range slots {
		at := &digits[len(digits)-1-slot/4]
		value := strings.IndexByte(hexDigits, *at) | 1<<(slot%4)
		*at = hexDigits[value]
	}
	return "0x" + string(digits)
}

const hexDigits = "0123456789abcdef"

// cpuBits returns a text with one character for each CPU of the node, the highest number first. A character
// is 1 if the CPU is in cpus, else 0. count is the number of CPUs.
func cpuBits(cpus []int, count int) string {
	count = max(count, cpus[len(cpus)-1]+1)
	digits := bytes.Repeat([]byte{'0'}, count)
	for _, cpu := range cpus {
		digits[count-1-cpu] = '1'
	}
	return string(digits)
}

// rankEnv returns the environment of a rank. It adds the variables that identify the rank to app, the
// environment of the rank's app context.
func (id Identity) rankEnv(app []string) []string {
	env := id.withOpenMPPlaces(id.gpuEnv(app))
	has := func(name string) bool {
		_, found := job.LookupEnv(app, name)
		return found
	}
	if !has("GFORTRAN_UNBUFFERED_PRECONNECTED") {
		env = append(env, "GFORTRAN_UNBUFFERED_PRECONNECTED=y")
	}
	env = append(env, id.commonVars()...)
	if id.Offer.OffersPMIx() {
		env = append(env, id.PMIx.rankVars(id, has)...)
	}
	for _, assignment := range id.compatVars() {
		name, _, _ := strings.Cut(assignment, "=")
		if !strings.HasPrefix(name, "MASTER_") || !has(name) { // if the user set one variable of the rendezvous, all of them stay
			env = append(env, assignment)
		}
	}
	return env
}

// gpuEnv returns a copy of app, an environment. If the user has said how many GPUs a rank gets, the copy contains only
// the GPU variables that select these GPUs, or hide all GPUs. Package cli does not let the user set such variables.
func (id Identity) gpuEnv(app []string) []string {
	if id.GPUs == nil && !id.NoGPUs {
		return slices.Clone(app)
	}
	visible := gpu.VisibleEnv(id.GPUs, func(name string) string { return job.EnvValue(app, name) })
	if id.NoGPUs {
		visible = gpu.HiddenEnv()
	}
	v := envBuilder{values: make(map[string]string, len(app))}
	for _, assignment := range app {
		v.setVariable(assignment)
	}
	v.unsetMatching(gpu.Variables)
	for _, assignment := range visible {
		v.setVariable(assignment)
	}
	return v.assignments()
}

// compatVars returns the variables with which other launchers identify a rank (cli.md 8, --env-compat). They
// are set only at the user's request, because libraries use them to find out which launcher has started the
// program.
func (id Identity) compatVars() (vars []string) {
	add := func(name string, value int) { vars = append(vars, name+"="+strconv.Itoa(value)) }
	for _, launcher := range id.Compat {
		switch launcher {
		case "torch":
			add("RANK", id.Rank)
			add("WORLD_SIZE", id.Size)
			add("LOCAL_RANK", id.LocalRank)
			add("LOCAL_WORLD_SIZE", id.LocalSize)
			add("NODE_RANK", id.Node)
			if host, port, err := net.SplitHostPort(id.Rendezvous); err == nil {
				vars = append(vars, "MASTER_ADDR="+host, "MASTER_PORT="+port)
			}
		case "ompi":
			if id.Offer.OffersPMIx() {
				continue // set already
			}
			add("OMPI_COMM_WORLD_RANK", id.Rank)
			add("OMPI_COMM_WORLD_SIZE", id.Size)
			add("OMPI_COMM_WORLD_LOCAL_RANK", id.LocalRank)
			add("OMPI_COMM_WORLD_LOCAL_SIZE", id.LocalSize)
			add("OMPI_COMM_WORLD_NODE_RANK", id.EarlierRanks+id.LocalRank) // among all ranks of the node, as in Open MPI
		case "mvapich":
			add("MV2_COMM_WORLD_RANK", id.Rank)
			add("MV2_COMM_WORLD_SIZE", id.Size)
			add("MV2_COMM_WORLD_LOCAL_RANK", id.LocalRank)
			add("MV2_COMM_WORLD_LOCAL_SIZE", id.LocalSize)
		default:
			if s := batch.Named(launcher); s != nil && s.Identity.Rank != "" {
				add(s.Identity.Rank, id.Rank)
				add(s.Identity.Size, id.Size)
				add(s.Identity.Local, id.LocalRank)
				add(s.Identity.Node, id.Node)
			}
		}
	}
	return vars
}
