//go:build linux

package rank

import (
	"slices"
	"strings"
	"testing"

	"remshell/job"
)

// identityFor returns a rank of a spawned group with two apps and a PMI offer.
func identityFor(o job.PMIOffer, change func(*PMIx)) Identity {
	id := Identity{Job: "j", Size: 6, Host: "n3", Rank: 5, LocalRank: 1, LocalSize: 2, App: 1, PMIFD: 3, Spawned: true, Offer: o}
	if o.OffersPMIx() {
		id.PMIx = &PMIx{Namespace: "rs-0123456789abcdef-2", Server: "srv-0123456789abcdef.0;tcp4://127.0.0.1:4711", SessionDir: "/tmp/rs-0-x",
			Secret: "0123456789abcdef", Universe: 8, AppSizes: []int{2, 4}, RanksPerCPU: 2}
		if change != nil {
			change(id.PMIx)
		}
	}
	return id
}

// environment returns the whole environment of a rank.
func (id Identity) environment(app ...string) []string {
	return id.rankEnv(id.AppEnv(app, []string{"./a.out", "-x", "y z"}, "/w"))
}

// The table of pmix-wire.md 2.2, in its order.
func TestPMIxVariables(t *testing.T) {
	env := identityFor(job.PMIOfferPMIx, nil).environment()
	const server = "srv-0123456789abcdef.0;tcp4://127.0.0.1:4711"
	for name, want := range map[string]string{
		"PMIX_NAMESPACE": "rs-0123456789abcdef-2", "PMIX_RANK": "5", "PMIX_SERVER_URI3": server, "PMIX_SERVER_URI21": server,
		"PMIX_SECURITY_MODE": "native", "PMIX_BFROP_BUFFER_TYPE": "PMIX_BFROP_BUFFER_NON_DESC", "PMIX_GDS_MODULE": "hash",
		"PMIX_VERSION": "3.2.5", "PMIX_HOSTNAME": "n3", "PMIX_SERVER_TMPDIR": "/tmp/rs-0-x", "PMIX_SYSTEM_TMPDIR": "/tmp",
		"OMPI_MCA_orte_local_daemon_uri": "1.0;tcp://127.0.0.1:1", "OMPI_MCA_orte_bound_at_launch": "1",
		"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
		"OMPI_COMM_WORLD_NODE_RANK": "1", "OMPI_UNIVERSE_SIZE": "8", "OMPI_APP_CTX_NUM_PROCS": "2 4", "OMPI_FIRST_RANKS": "0 2",
		"OMPI_NUM_APP_CTX": "2", "OMPI_MCA_orte_app_num": "1", "OMPI_COMMAND": "./a.out", "OMPI_ARGV": "-x y z",
		"OMPI_FILE_LOCATION": "/tmp/rs-0-x/rs-0123456789abcdef-2/5", "OMPI_MCA_initial_wdir": "/w", "OMPI_MCA_mpi_oversubscribe": "1",
		"MPI_LOCALRANKID": "1", "MPIEXEC_RANK": "5",
	} {
		if got, ok := job.LookupEnv(env, name); got != want || !ok {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	key := job.EnvValue(env, "OMPI_MCA_orte_precondition_transports")
	if len(key) != 33 || key[16] != '-' || strings.Trim(key, "0123456789abcdef-") != "" || strings.Contains(key, "0123456789abcdef") {
		t.Errorf("the key of transports is %q", key)
	}
	names := make([]string, len(env))
	for i, assignment := range env {
		names[i], _, _ = strings.Cut(assignment, "=")
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("a variable is defined twice: %q", names)
	}
	for _, name := range names { // PMIX-10
		if job.MatchesPattern([]string{"PMI_*", "MPIR_CVAR_PMI_VERSION", "OMPI_MCA_orte_launch", "OMPI_MCA_orte_ess_*", "OMPI_MCA_ess_base_*",
			"OMPI_MCA_orte_hnp_uri", "PMIX_ID", "PMIX_DSTORE_*", "PRTE_*", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI2", "OMPI_MCA_pml"}, name) {
			t.Errorf("%s is set", name)
		}
	}
}

// PMIX-1: what each --pmi value offers, and what it does not.
func TestOffers(t *testing.T) {
	for _, test := range []struct {
		offer     job.PMIOffer
		pmi, pmix bool
		version   string // PMI version that MPICH gets
	}{
		{job.PMIOfferPMI1, true, false, ""}, {job.PMIOfferPMI2, true, false, "2"}, {job.PMIOfferPMIx, false, true, ""},
		{job.PMIOfferBoth, true, true, "1"}, {job.PMIOfferNone, false, false, ""},
	} {
		env := identityFor(test.offer, nil).environment("A=1")
		for name, want := range map[string]bool{"PMI_FD": test.pmi, "PMI_SIZE": test.pmi, "PMI_RANK": test.pmi, "PMI_SPAWNED": test.pmi,
			"PMIX_NAMESPACE": test.pmix, "PMIX_RANK": test.pmix, "OMPI_COMM_WORLD_RANK": test.pmix, "A": true, "MPIEXEC_RANK": true} {
			if _, got := job.LookupEnv(env, name); got != want {
				t.Errorf("%s: %s is there: %v", test.offer, name, got)
			}
		}
		if got := job.EnvValue(env, "MPIR_CVAR_PMI_VERSION"); got != test.version {
			t.Errorf("%s: MPICH is told to speak PMI %q", test.offer, got)
		}
	}
}

// PMIX-7: the user's own settings win, except where nothing else would work.
func TestTheUsersVariablesWin(t *testing.T) {
	own := []string{"MPIR_CVAR_PMI_VERSION=x", "OMPI_MCA_mpi_oversubscribe=0", "OMPI_COMM_WORLD_RANK=9", "PMIX_SYSTEM_TMPDIR=/t"}
	env := identityFor(job.PMIOfferBoth, nil).environment(append(own, "PMIX_GDS_MODULE=ds21", "PMIX_NAMESPACE=other")...)
	for _, assignment := range append(own, "PMIX_GDS_MODULE=hash", "PMIX_NAMESPACE=rs-0123456789abcdef-2") {
		name, want, _ := strings.Cut(assignment, "=")
		if got := job.EnvValue(env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// PMIX-12, PMIX-13.
func TestHintsOfTheNetwork(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*PMIx)
		own    string
		want   string // OMPI_MCA_pml, btl_tcp_if_include, oob_tcp_if_include
	}{
		{"nothing known", nil, "A=", "  "},
		{"no fast network", func(p *PMIx) { p.NoFabric = true }, "A=", "ob1  "},
		{"one by name", func(p *PMIx) { p.Iface = "eth0" }, "A=", " eth0 eth0"},
		{"one by prefix", func(p *PMIx) { p.Iface = "10.0.0.0/8" }, "A=", " 10.0.0.0/8 10.0.0.0/8"},
		{"the user has another", func(p *PMIx) { p.Iface = "eth0" }, "OMPI_MCA_btl_tcp_if_include=lo", " lo eth0"},
		{"the user excludes some", func(p *PMIx) { p.Iface = "eth0" }, "OMPI_MCA_btl_tcp_if_exclude=lo", "  "},
		{"the user chose the pml", func(p *PMIx) { p.NoFabric = true }, "OMPI_MCA_pml=ucx", "ucx  "},
		{"the user chose the mtl", func(p *PMIx) { p.NoFabric = true }, "OMPI_MCA_mtl=ofi", "  "},
		{"the user chose the btl", func(p *PMIx) { p.NoFabric = true }, "OMPI_MCA_btl=self", "  "},
		{"the user speaks of UCX", func(p *PMIx) { p.NoFabric = true }, "UCX_TLS=tcp", "  "},
		{"the user speaks of OFI", func(p *PMIx) { p.NoFabric = true }, "FI_PROVIDER=tcp", "  "},
		{"the user speaks of a part of the btl", func(p *PMIx) { p.NoFabric = true }, "OMPI_MCA_btl_base_verbose=1", "ob1  "},
	} {
		env := identityFor(job.PMIOfferPMIx, test.change).environment(test.own)
		got := job.EnvValue(env, "OMPI_MCA_pml") + " " + job.EnvValue(env, "OMPI_MCA_btl_tcp_if_include") + " " + job.EnvValue(env, "OMPI_MCA_oob_tcp_if_include")
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// Nodes on one machine share its /dev/shm, but no segment in it.
func TestSimulatedNodesShareNoSegments(t *testing.T) {
	env := identityFor(job.PMIOfferPMIx, func(p *PMIx) { p.SharesMachine = true }).environment()
	for _, name := range []string{"OMPI_MCA_btl_vader_backing_directory", "OMPI_MCA_btl_sm_backing_directory"} {
		if got, want := job.EnvValue(env, name), "/tmp/rs-0-x/rs-0123456789abcdef-2"; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// --env-compat ompi does not repeat variables that are set already.
func TestCompatibleWithOpenMPIAndPMIx(t *testing.T) {
	id := identityFor(job.PMIOfferBoth, nil)
	id.Compat = []string{"ompi"}
	n := 0
	for _, assignment := range id.environment() {
		if strings.HasPrefix(assignment, "OMPI_COMM_WORLD_RANK=") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("OMPI_COMM_WORLD_RANK is there %d times", n)
	}
}
