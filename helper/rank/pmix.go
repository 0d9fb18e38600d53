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
	Namespace string // of the group
	Server    string // its name and address, as PMIX_SERVER_URI3 has them
	Dir       string // for sessions of Open MPI; empty: there is none
	Secret    string // of the job
	Universe  int    // MPI_UNIVERSE_SIZE
	Sections  []int  // ranks of each
	PerCPU    int    // ranks of the job there for each CPU that it may use, rounded up
	Iface     string // whose network Open MPI is to use: a name or a prefix; empty: as it finds
	Apart     bool   // the machine plays other nodes, too
	NoFabric  bool   // it need look for no fast network (PMIX-13)
}

// Crowded reports whether the node has fewer CPUs for the job than ranks.
func (p *PMIx) Crowded() bool { return p.PerCPU > 1 }

// Slack is the timer slack of the ranks that are offered PMIx.
func (p *PMIx) Slack() time.Duration { return SlackOf(p.PerCPU) }

// SectionEnv is the environment of a section with what its ranks are told in common of how they
// are reached: below what the user has said, but where that must not be (PMIX-7).
func (id Identity) SectionEnv(app, argv []string, dir string) []string {
	v := &variables{values: make(map[string]string, len(app))}
	for _, assignment := range app {
		v.set(assignment)
	}
	id.locate(v)
	switch id.Offer {
	case job.OfferPMI2:
		v.suggest("MPIR_CVAR_PMI_VERSION", "2")
	case job.OfferBoth: // or MPICH 5 looks for PMIx, and gives up where it finds PMI beside that
		v.suggest("MPIR_CVAR_PMI_VERSION", "1")
	}
	if id.Offer.PMIx() {
		id.PMIx.connect(v, id.Host)
		id.PMIx.inform(v, id)
		id.PMIx.describe(v, id, argv, dir)
		id.PMIx.advise(v)
	}
	if suggested := job.Suggestions(v.suggested); suggested != "" { // a launch from inside a rank is to leave it out
		v.set(job.Suggested + "=" + suggested)
	}
	return v.list()
}

// connect sets what a client of PMIx 2.1 to 7.0 finds its server by, in the one encoding that all
// of them know. The marker makes Open MPI 4 believe that it was launched (pmix-wire.md 2.3).
func (p *PMIx) connect(v *variables, host string) {
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
		v.set(assignment)
	}
}

// inform sets what Open MPI and scripts around it read of the group.
func (p *PMIx) inform(v *variables, id Identity) {
	first, sum := make([]int, len(p.Sections)), 0
	for i, n := range p.Sections {
		first[i] = sum
		sum += n
	}
	v.suggest("OMPI_COMM_WORLD_SIZE", strconv.Itoa(id.Size))
	v.suggest("OMPI_COMM_WORLD_LOCAL_SIZE", strconv.Itoa(id.Locals))
	v.suggest("OMPI_UNIVERSE_SIZE", strconv.Itoa(p.Universe))
	v.suggest("OMPI_APP_CTX_NUM_PROCS", blanks(p.Sections))
	v.suggest("OMPI_FIRST_RANKS", blanks(first))
	v.suggest("OMPI_NUM_APP_CTX", strconv.Itoa(len(p.Sections)))
	v.suggest("OMPI_MCA_orte_app_num", strconv.Itoa(id.App))
}

// blanks writes numbers with blanks between.
func blanks(numbers []int) string { return strings.Trim(fmt.Sprint(numbers), "[]") }

// describe sets what MPI_INFO_ENV has, and where files of the session are.
func (p *PMIx) describe(v *variables, id Identity, argv []string, dir string) {
	v.suggestShort("OMPI_COMMAND", argv[0])
	if len(argv) > 1 {
		v.suggestShort("OMPI_ARGV", strings.Join(argv[1:], " "))
	}
	v.suggest("OMPI_MCA_initial_wdir", dir)
	v.suggest("PMIX_SYSTEM_TMPDIR", "/tmp")
	if p.Dir != "" {
		v.suggest("PMIX_SERVER_TMPDIR", p.Dir)
	}
	if p.Apart && p.Dir != "" { // in /dev/shm the segments of two such nodes have the same names
		v.suggest("OMPI_MCA_btl_vader_backing_directory", filepath.Join(p.Dir, p.Namespace))
		v.suggest("OMPI_MCA_btl_sm_backing_directory", filepath.Join(p.Dir, p.Namespace))
	}
}

// advise sets what Open MPI cannot know, or would have to find out.
func (p *PMIx) advise(v *variables) {
	v.suggest("OMPI_MCA_orte_bound_at_launch", "1")
	v.suggest("OMPI_MCA_orte_precondition_transports", transportKey(p.Secret))
	crowded := "0"
	if p.Crowded() {
		crowded = "1"
	}
	v.suggest("OMPI_MCA_mpi_oversubscribe", crowded)
	excluded := func(name string) bool { return name == "OMPI_MCA_btl_tcp_if_exclude" } // which contradicts it
	if p.Iface != "" && !slices.ContainsFunc(v.names, excluded) {
		v.suggest("OMPI_MCA_btl_tcp_if_include", p.Iface)
		v.suggest("OMPI_MCA_oob_tcp_if_include", p.Iface)
	}
	chosen := func(name string) bool { return job.Matches(networkChoices, name) }
	if p.NoFabric && !slices.ContainsFunc(v.names, chosen) {
		v.suggest("OMPI_MCA_pml", "ob1")
	}
}

// networkChoices are the variables by which a user chooses the network himself (PMIX-13).
var networkChoices = []string{"OMPI_MCA_pml", "OMPI_MCA_mtl", "OMPI_MCA_btl", "UCX_*", "FI_*"}

// transportKey is by what the transports of Open MPI know each other: two numbers of 64 bits, the
// same for all ranks of a job, from which its secret cannot be found.
func transportKey(secret string) string {
	sum := sha256.Sum256([]byte("transports " + secret))
	return fmt.Sprintf("%x-%x", sum[:8], sum[8:16])
}

// own lists what each rank is told for itself; those that the environment has already say what the
// user wants, but for its number.
func (p *PMIx) own(id Identity, has func(name string) bool) []string {
	vars := []string{"PMIX_RANK=" + strconv.Itoa(id.Rank)}
	suggest := func(name, value string) {
		if !has(name) {
			vars = append(vars, name+"="+value)
		}
	}
	suggest("OMPI_COMM_WORLD_RANK", strconv.Itoa(id.Rank))
	suggest("OMPI_COMM_WORLD_LOCAL_RANK", strconv.Itoa(id.Local))
	suggest("OMPI_COMM_WORLD_NODE_RANK", strconv.Itoa(id.Earlier+id.Local))
	if p.Dir != "" {
		suggest("OMPI_FILE_LOCATION", filepath.Join(p.Dir, p.Namespace, strconv.Itoa(id.Rank)))
	}
	return vars
}
