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

// PMIx describes the node's PMIx server, and facts that Open MPI needs. The environment of a group's ranks is built
// from it (pmix-wire.md 2.2).
type PMIx struct {
	Namespace     string // of the group
	Server        string // name and address, as in PMIX_SERVER_URI3
	SessionDir    string // session directory of Open MPI; empty: none
	Secret        string // secret of the job
	Universe      int    // MPI_UNIVERSE_SIZE
	AppSizes      []int  // number of ranks of each app
	RanksPerCPU   int    // ranks of the job on this node for each CPU that they may use, rounded up
	Iface         string // interface or prefix of Open MPI's network; empty: Open MPI chooses
	SharesMachine bool   // the machine is several nodes of the job
	NoFabric      bool   // Open MPI shall not look for a fast network (PMIX-13)
}

// Oversubscribed reports whether the job has more ranks on the node than CPUs.
func (p *PMIx) Oversubscribed() bool { return p.RanksPerCPU > 1 }

// TimerSlack returns the timer slack of the group's ranks.
func (p *PMIx) TimerSlack() time.Duration { return TimerSlackFor(p.RanksPerCPU) }

// AppEnv returns app, the environment of an app context, together with the PMI settings that all its ranks
// share. Settings of the user take precedence, except those that would break PMI (rule PMIX-7).
func (id Identity) AppEnv(app, argv []string, dir string) []string {
	v := &envBuilder{values: make(map[string]string, len(app))}
	for _, assignment := range app {
		v.setVariable(assignment)
	}
	id.setAddress(v)
	switch id.Offer {
	case job.PMIOfferPMI2:
		v.setDefault("MPIR_CVAR_PMI_VERSION", "2")
	case job.PMIOfferBoth: // otherwise MPICH 5 looks for PMIx, and fails if it finds PMI as well
		v.setDefault("MPIR_CVAR_PMI_VERSION", "1")
	}
	if id.Offer.OffersPMIx() {
		id.PMIx.setServer(v, id.Host)
		id.PMIx.setGroupInfo(v, id)
		id.PMIx.setEnvInfo(v, id, argv, dir)
		id.PMIx.setHints(v)
	}
	if suggested := job.SuggestedValue(v.suggested); suggested != "" { // an mpiexec inside a rank removes it again
		v.setVariable(job.SuggestedVariable + "=" + suggested)
	}
	return v.assignments()
}

// setServer sets the variables by which PMIx clients 2.1 to 7.0 find the server, in the one encoding that all
// of them accept. It also sets a variable that makes Open MPI 4 assume that a launcher has started it
// (pmix-wire.md 2.3).
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

// setGroupInfo sets the variables from which Open MPI and scripts read the size and names of the group.
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

// joinBlanks returns numbers as text, separated by blanks.
func joinBlanks(numbers []int) string { return strings.Trim(fmt.Sprint(numbers), "[]") }

// setEnvInfo sets the variables from which Open MPI builds MPI_INFO_ENV, and the variables for the session directories.
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
	if p.SharesMachine && p.SessionDir != "" { // in /dev/shm the segments of two such nodes would have the same names
		v.setDefault("OMPI_MCA_btl_vader_backing_directory", filepath.Join(p.SessionDir, p.Namespace))
		v.setDefault("OMPI_MCA_btl_sm_backing_directory", filepath.Join(p.SessionDir, p.Namespace))
	}
}

// setHints sets variables that tell Open MPI facts which it cannot know, or would have to find out by itself.
func (p *PMIx) setHints(v *envBuilder) {
	v.setDefault("OMPI_MCA_orte_bound_at_launch", "1")
	v.setDefault("OMPI_MCA_orte_precondition_transports", transportKey(p.Secret))
	crowded := "0"
	if p.Oversubscribed() {
		crowded = "1"
	}
	v.setDefault("OMPI_MCA_mpi_oversubscribe", crowded)
	excluded := func(name string) bool { return name == "OMPI_MCA_btl_tcp_if_exclude" } // the variable that contradicts it
	if p.Iface != "" && !slices.ContainsFunc(v.names, excluded) {
		v.setDefault("OMPI_MCA_btl_tcp_if_include", p.Iface)
		v.setDefault("OMPI_MCA_oob_tcp_if_include", p.Iface)
	}
	chosen := func(name string) bool { return job.MatchesPattern(networkVariables, name) }
	if p.NoFabric && !slices.ContainsFunc(v.names, chosen) {
		v.setDefault("OMPI_MCA_pml", "ob1")
	}
}

// networkVariables are the variables with which users choose the network that Open MPI uses (rule PMIX-13).
var networkVariables = []string{"OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_btl", "UCX_*", "FI_*"}

// transportKey returns the key by which Open MPI's transports identify a job. It consists of two 64-bit
// numbers, is the same for all ranks, and does not reveal the job's secret.
func transportKey(secret string) string {
	sum := sha256.Sum256([]byte("transports " + secret))
	return fmt.Sprintf("%x-%x", sum[:8], sum[8:16])
}

// rankVars returns the PMIx and Open MPI variables whose values differ between ranks. It leaves out variables
// for which isSet returns true, except the rank number.
func (p *PMIx) rankVars(id Identity, isSet func(name string) bool) []string {
	vars := []string{"PMIX_RANK=" + strconv.Itoa(id.Rank)}
	suggest := func(name, value string) {
		if !isSet(name) {
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
