//go:build linux

package rank

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/job"
)

// PMIx is what the ranks of a group are told of the PMIx server of their node, and Open MPI
// besides (pmix-wire.md 2.2).
type PMIx struct {
	Namespace     string // of the group
	Server        string // its name and address, as PMIX_SERVER_URI3 has them
	SessionDir    string // for sessions of Open MPI; empty: there is none
	Secret        string // of the job
	Universe      int    // MPI_UNIVERSE_SIZE
	AppSizes      []int  // ranks of each
	RanksPerCPU   int    // ranks of the job there for each CPU that it may use, rounded up
	Iface         string // whose network Open MPI is to use: a name or a prefix; empty: as it finds
	SharesMachine bool   // the machine plays other nodes, too
	NoFabric      bool   // it need look for no fast network (PMIX-13)
}

// Oversubscribed reports whether the node has fewer CPUs for the job than ranks.
func (p *PMIx) Oversubscribed() bool { return p.RanksPerCPU > 1 }

// TimerSlack is the timer slack of the ranks that are offered PMIx.
func (p *PMIx) TimerSlack() time.Duration { return TimerSlackFor(p.RanksPerCPU) }

// AppEnv is the environment of a section with what its ranks are told in common of how they
// are reached: below what the user has said, but where that must not be (PMIX-7).
func (id Identity) AppEnv(app, argv []string, dir string) []string {
	v := &envBuilder{values: make(map[string]string, len(app))}
	for _, assignment := range app {
		v.setVariable(assignment)
	}
	id.setAddress(v)
	switch id.Offer {
	case job.PMIOfferPMI2:
		v.setDefault("MPIR_CVAR_PMI_VERSION", "2")
	case job.PMIOfferBoth: // or MPICH 5 looks for PMIx, and gives up where it finds PMI beside that
		v.setDefault("MPIR_CVAR_PMI_VERSION", "1")
	}
	if id.Offer.OffersPMIx() {
		id.PMIx.setServer(v, id.Host)
		id.PMIx.setGroupInfo(v, id)
		id.PMIx.setEnvInfo(v, id, argv, dir)
		id.PMIx.setHints(v)
	}
	if suggested := job.SuggestedValue(v.suggested); suggested != "" { // a launch from inside a rank is to leave it out
		v.setVariable(job.SuggestedVariable + "=" + suggested)
	}
	return v.assignments()
}

// setServer sets what a client of PMIx 2.1 to 7.0 finds its server by, in the one encoding that all
// of them know. The marker makes Open MPI 4 believe that it was launched (pmix-wire.md 2.3).
func (p *PMIx) setServer(v *envBuilder, host string) {
	for _, assignment := range []string{
		"PMIX_NAMESPACE=" + p.Namespace,
		"PMIX_SERVER_URI3=" + p.Server,
		"PMIX_SERVER_URI21=" + p.Server,
		"PMIX_SECURITY_MODE=native",
		"PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_NON_DESC",
		"PMIX_GDS_MODULE=hash",
		"PMIX_VERSION=3.2.5",
		"PMIX_HOSTNAME=" + host,
		"OMPI_MCA_orte_local_daemon_uri=1.0;tcp://127.0.0.1:1",
	} {
		v.setVariable(assignment)
	}
}

// setGroupInfo sets what Open MPI and scripts around it read of the group.
func (p *PMIx) setGroupInfo(v *envBuilder, id Identity) {
	first, sum := make([]int, len(p.AppSizes)), 0
	for i, n := range p.AppSizes {
		first[i] = sum
		sum += n
	}
	v.setDefault("OMPI_COMM_WORLD_SIZE", strconv.Itoa(id.Size))
	v.setDefault("OMPI_COMM_WORLD_LOCAL_SIZE", strconv.Itoa(id.LocalSize))
	v.setDefault("OMPI_UNIVERSE_SIZE", strconv.Itoa(p.Universe))
	v.setDefault("OMPI_APP_CTX_NUM_PROCS", joinBlanks(p.AppSizes))
	v.setDefault("OMPI_FIRST_RANKS", joinBlanks(first))
	v.setDefault("OMPI_NUM_APP_CTX", strconv.Itoa(len(p.AppSizes)))
	v.setDefault("OMPI_MCA_orte_app_num", strconv.Itoa(id.App))
}

// joinBlanks writes numbers with blanks between.
func joinBlanks(numbers []int) string { return strings.Trim(fmt.Sprint(numbers), "[]") }

// setEnvInfo sets what MPI_INFO_ENV has, and where files of the session are.
func (p *PMIx) setEnvInfo(v *envBuilder, id Identity, argv []string, dir string) {
	v.setShortDefault("OMPI_COMMAND", argv[0])
	if len(argv) > 1 {
		v.setShortDefault("OMPI_ARGV", strings.Join(argv[1:], " "))
	}
	v.setDefault("OMPI_MCA_initial_wdir", dir)
	v.setDefault("PMIX_SYSTEM_TMPDIR", "/tmp")
	if p.SessionDir != "" {
		v.setDefault("PMIX_SERVER_TMPDIR", p.SessionDir)
	}
	if p.SharesMachine && p.SessionDir != "" { // in /dev/shm the segments of two such nodes have the same names
		v.setDefault("OMPI_MCA_btl_vader_backing_directory", filepath.Join(p.SessionDir, p.Namespace))
		v.setDefault("OMPI_MCA_btl_sm_backing_directory", filepath.Join(p.SessionDir, p.Namespace))
	}
}

// setHints sets what Open MPI cannot know, or would have to find out.
func (p *PMIx) setHints(v *envBuilder) {
	v.setDefault("OMPI_MCA_orte_bound_at_launch", "1")
	v.setDefault("OMPI_MCA_orte_precondition_transports", transportKey(p.Secret))
	crowded := "0"
	if p.Oversubscribed() {
		crowded = "1"
	}
	v.setDefault("OMPI_MCA_mpi_oversubscribe", crowded)
	excluded := func(name string) bool { return name == "OMPI_MCA_btl_tcp_if_exclude" } // which contradicts it
	if p.Iface != "" && !slices.ContainsFunc(v.names, excluded) {
		v.setDefault("OMPI_MCA_btl_tcp_if_include", p.Iface)
		v.setDefault("OMPI_MCA_oob_tcp_if_include", p.Iface)
	}
	chosen := func(name string) bool { return job.MatchesPattern(networkVariables, name) }
	if p.NoFabric && !slices.ContainsFunc(v.names, chosen) {
		v.setDefault("OMPI_MCA_pml", "ob1")
	}
}

// networkVariables are the variables by which a user chooses the network himself (PMIX-13).
var networkVariables = []string{"OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_btl", "UCX_*", "FI_*"}

// transportKey is by what the transports of Open MPI know each other: two numbers of 64 bits, the
// same for all ranks of a job, from which its secret cannot be found.
func transportKey(secret string) string {
	sum := sha256.Sum256([]byte("transports " + secret))
	return fmt.Sprintf("%x-%x", sum[:8], sum[8:16])
}

// rankVars lists what each rank is told for itself; those that the environment has already say what the
// user wants, but for its number.
func (p *PMIx) rankVars(id Identity, has func(name string) bool) []string {
	vars := []string{"PMIX_RANK=" + strconv.Itoa(id.Rank)}
	suggest := func(name, value string) {
		if !has(name) {
			vars = append(vars, name+"="+value)
		}
	}
	suggest("OMPI_COMM_WORLD_RANK", strconv.Itoa(id.Rank))
	suggest("OMPI_COMM_WORLD_LOCAL_RANK", strconv.Itoa(id.LocalRank))
	suggest("OMPI_COMM_WORLD_NODE_RANK", strconv.Itoa(id.EarlierRanks+id.LocalRank))
	if p.SessionDir != "" {
		suggest("OMPI_FILE_LOCATION", filepath.Join(p.SessionDir, p.Namespace, strconv.Itoa(id.Rank)))
	}
	return vars
}
