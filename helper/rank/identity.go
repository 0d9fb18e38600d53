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

// An Identity is what a rank is in its job and on its node, as its environment tells it.
type Identity struct {
	Job                        job.ID
	Size, Nodes, Node          int
	Host                       string // name of the node as the user wrote it
	Address                    string // where peers reach the node; empty: unknown
	Iface                      string // whose address that is, as the user said
	Compat                     []string
	Rendezvous                 string // address and port at which torch's ranks meet
	Ledger                     string // directory; empty: the default
	StageDir                   string // folder with the files of --stage; empty: there are none
	Rank, LocalRank, LocalSize int
	App                        int
	EarlierRanks               int // ranks that other groups of the job have had on the node before
	Spawned                    bool
	Offer                      job.PMIOffer // by what it finds its helper; zero: by PMI
	PMIx                       *PMIx        // if that is offered
	PMIFD                      int          // 0: none
	PMIPort                    string       // PMI_PORT, for rank ID; empty: none
	PMIID                      int
	Slots                      []int     // of the node, that are the rank's
	NodeSlots                  int       // of the node
	CPUs                       []int     // to which the rank is bound; nil: it is not
	NodeCPUs                   int       // of the node, one more than their highest number
	GPUs                       []gpu.GPU // the rank's own
	NoGPUs                     bool      // it is to see none
	Places                     job.OMPPlaces
}

// commonVars lists what every rank sees of its identity (cli.md section 8, pmi-wire.md
// section 1.1).
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
	if id.Ledger != "" { // a launch from inside a rank must find the claim around it
		vars = append(vars, "MPIEXEC_LEDGER="+id.Ledger)
	}
	if id.StageDir != "" {
		vars = append(vars, "MPIEXEC_STAGE_DIR="+id.StageDir)
	}
	if id.Address != "" {
		vars = append(vars, "PMI_HOSTNAME="+id.Address)
	}
	return vars
}

// setAddress suggests to MPICH where peers reach the node.
func (id Identity) setAddress(v *envBuilder) {
	if id.Address != "" {
		v.setDefault("MPIR_CVAR_CH3_INTERFACE_HOSTNAME", id.Address)
	}
	if id.Iface != "" && !strings.Contains(id.Iface, "/") {
		v.setDefault("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE", id.Iface)
	}
}

// pmiVars lists what a rank finds its PMI server by; nothing, if it is to find it not.
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

// pinningVars lists what a rank sees of its slots and CPUs: the variables of ParaStation
// (placement.md 7.6), and ours, which has the CPUs in the kernel's notation, or none.
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

// slotMask writes slots as a hexadecimal number in groups of four digits, as many as
// the slots of the node take: "0x0003".
func slotMask(slots []int, of int) string {
	of = max(of, slots[len(slots)-1]+1)
	digits := bytes.Repeat([]byte{'0'}, (of+15)/16*4)
	for _, slot := range slots {
		at := &digits[len(digits)-1-slot/4]
		value := strings.IndexByte(hexDigits, *at) | 1<<(slot%4)
		*at = hexDigits[value]
	}
	return "0x" + string(digits)
}

const hexDigits = "0123456789abcdef"

// cpuBits writes a character for each CPU of a node, the highest first: 1 if it is one
// of these, else 0.
func cpuBits(cpus []int, of int) string {
	of = max(of, cpus[len(cpus)-1]+1)
	digits := bytes.Repeat([]byte{'0'}, of)
	for _, cpu := range cpus {
		digits[of-1-cpu] = '1'
	}
	return string(digits)
}

// rankEnv adds a rank's identity to the environment of its section.
func (id Identity) rankEnv(app []string) []string {
	env := id.withOpenMPPlaces(id.gpuEnv(app))
	has := func(name string) bool {
		_, there := job.LookupEnv(app, name)
		return there
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
		if !strings.HasPrefix(name, "MASTER_") || !has(name) { // who chose a rendezvous has reasons
			env = append(env, assignment)
		}
	}
	return env
}

// gpuEnv is the environment of an app with what tells a rank its GPUs, if that was asked
// for. Only words of our own count then: those that come with the node or the launcher are
// about all GPUs, and what the user has said by hand was refused (package cli).
func (id Identity) gpuEnv(app []string) []string {
	if id.GPUs == nil && !id.NoGPUs {
		return slices.Clone(app)
	}
	tell := gpu.VisibleEnv(id.GPUs, func(name string) string { return job.EnvValue(app, name) })
	if id.NoGPUs {
		tell = gpu.HiddenEnv()
	}
	v := envBuilder{values: make(map[string]string, len(app))}
	for _, assignment := range app {
		v.setVariable(assignment)
	}
	v.unsetMatching(gpu.Variables)
	for _, assignment := range tell {
		v.setVariable(assignment)
	}
	return v.assignments()
}

// compatVars lists what other launchers would tell a rank of its identity (cli.md section 8,
// --env-compat). Libraries guess by them who started them, so they are set only on demand.
func (id Identity) compatVars() (vars []string) {
	tell := func(name string, value int) { vars = append(vars, name+"="+strconv.Itoa(value)) }
	for _, launcher := range id.Compat {
		switch launcher {
		case "torch":
			tell("RANK", id.Rank)
			tell("WORLD_SIZE", id.Size)
			tell("LOCAL_RANK", id.LocalRank)
			tell("LOCAL_WORLD_SIZE", id.LocalSize)
			tell("NODE_RANK", id.Node)
			if host, port, err := net.SplitHostPort(id.Rendezvous); err == nil {
				vars = append(vars, "MASTER_ADDR="+host, "MASTER_PORT="+port)
			}
		case "ompi":
			if id.Offer.OffersPMIx() {
				continue // it has them already
			}
			tell("OMPI_COMM_WORLD_RANK", id.Rank)
			tell("OMPI_COMM_WORLD_SIZE", id.Size)
			tell("OMPI_COMM_WORLD_LOCAL_RANK", id.LocalRank)
			tell("OMPI_COMM_WORLD_LOCAL_SIZE", id.LocalSize)
			tell("OMPI_COMM_WORLD_NODE_RANK", id.EarlierRanks+id.LocalRank) // among ranks of the node: so in Open MPI
		case "mvapich":
			tell("MV2_COMM_WORLD_RANK", id.Rank)
			tell("MV2_COMM_WORLD_SIZE", id.Size)
			tell("MV2_COMM_WORLD_LOCAL_RANK", id.LocalRank)
			tell("MV2_COMM_WORLD_LOCAL_SIZE", id.LocalSize)
		default:
			if s := batch.Named(launcher); s != nil && s.Identity.Rank != "" {
				tell(s.Identity.Rank, id.Rank)
				tell(s.Identity.Size, id.Size)
				tell(s.Identity.Local, id.LocalRank)
				tell(s.Identity.Node, id.Node)
			}
		}
	}
	return vars
}
