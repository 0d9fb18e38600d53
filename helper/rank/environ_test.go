//go:build linux

package rank

import (
	"slices"
	"strings"
	"testing"

	"remshell/format"
	"remshell/gpu"
	"remshell/job"
)

func TestAppEnv(t *testing.T) {
	node := []string{"HOME=/h", "PATH=/bin", "LANG=C", "EDITOR=vi", "PMI_RANK=5"}
	for _, test := range []struct {
		name      string
		own       []string
		base, app job.Env
		want      string
	}{
		{"the node's own, as it is", []string{"A=1", "B=x=y", "C="}, job.Env{}, job.Env{}, "A=1 B=x=y C="},
		{"later ones win in the place of the first", []string{"A=1", "B=1"}, job.Env{Set: []string{"A=2", "C=2"}}, job.Env{Set: []string{"C=3", "D=3"}}, "A=2 B=1 C=3 D=3"},
		{"twice in one layer", nil, job.Env{Set: []string{"A=1", "A=2"}}, job.Env{}, "A=2"},
		{"unset after set, per layer", []string{"A=1", "B=1"}, job.Env{Set: []string{"C=2"}, Unset: []string{"A", "C"}}, job.Env{Set: []string{"C=3"}, Unset: []string{"B"}}, "C=3"},
		{"unset by pattern", []string{"SLURM_A=1", "SLURM=1", "XSLURM_A=1"}, job.Env{Unset: []string{"SLURM_*"}}, job.Env{}, "SLURM=1 XSLURM_A=1"},
		{"a * inside stands for itself", []string{"A*B=1", "AXB=1"}, job.Env{Unset: []string{"A*B"}}, job.Env{}, "AXB=1"},
		{"unset is no set to empty", []string{"A=1"}, job.Env{}, job.Env{Unset: []string{"A"}}, ""},
		{"bare: what ENV-3 lists", node, job.Env{Minimal: true}, job.Env{}, "HOME=/h PATH=/bin LANG=C"},
		{"bare by the section", node, job.Env{Set: []string{"X=1"}}, job.Env{Minimal: true, Set: []string{"Y=1"}}, "HOME=/h PATH=/bin LANG=C X=1 Y=1"},
		{"not assignments", []string{"A", "=B", "", "C=1"}, job.Env{Set: []string{"D", "=E"}}, job.Env{}, "C=1"},
		{"any byte but NUL", []string{"A=\x01\xff\n \t"}, job.Env{}, job.Env{}, "A=\x01\xff\n \t"},
	} {
		got := strings.Join(AppEnv(test.own, test.base, test.app, "/w"), " ")
		if want := strings.TrimSpace(test.want + " PWD=/w"); got != want {
			t.Errorf("%s: %q, want %q", test.name, got, want)
		}
	}
}

// ENV-2 and PMIX-8, one variable for each line. Other variables stay.
func TestOuterLauncherVariablesAreRemoved(t *testing.T) {
	gone := []string{"PMI_RANK", "PMI_FD", "PMIX_NAMESPACE", "HYDI_CONTROL_FD", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
		"OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_precondition_transports", "OMPI_MCA_ess_base_jobid", "PRTE_LAUNCHED",
		"PALS_RANKID", "ALPS_APP_PE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_TASK_PID", "FLUX_TASK_RANK", "MPIEXEC_RANK", "PSID_CPU_PINNING", "__PINNING__",
		"PMIX_SERVER_URI41", "PMIX_MCA_psec", "OMPI_MCA_pmix", "OMPI_MCA_num_procs", "OMPI_MCA_initial_wdir", "OMPI_FILE_LOCATION", "OMPI_PARENT_PORT",
		"OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX", "OMPI_UNIVERSE_SIZE", "OMPI_WORLD_SIZE", "JSM_JSRUN_PORT", "FLUX_JOB_ID", "FLUX_PMI_LIBRARY_PATH"}
	stay := []string{"PMI", "OMPI_MCA_btl", "OMPI_MCA_pmix_base_verbose", "SLURM_JOB_ID", "SLURM_PROCIDS", "FLUX_URI", "MPICH_ASYNC", "MPIR_CVAR_X", "PATH"}
	var own []string
	for _, name := range slices.Concat(gone, stay) {
		own = append(own, name+"=outer")
	}
	got := AppEnv(own, job.Env{}, job.Env{}, "/w")
	for _, name := range gone {
		if slices.Contains(got, name+"=outer") {
			t.Errorf("%s is left", name)
		}
	}
	for _, name := range stay {
		if !slices.Contains(got, name+"=outer") {
			t.Errorf("%s is gone", name)
		}
	}
	if got := AppEnv(own, job.Env{Set: []string{"PMI_DEBUG=1"}}, job.Env{}, "/w"); !slices.Contains(got, "PMI_DEBUG=1") {
		t.Error("PMI_DEBUG is gone, though the user gave it by hand")
	}
}

func TestRankEnv(t *testing.T) {
	p := Identity{Job: "j1", Size: 8, Nodes: 3, Node: 2, Host: "n3", Rank: 5, LocalRank: 1, LocalSize: 2, App: 1, PMIFD: 3}
	env := p.rankEnv([]string{"A=1"})
	for _, want := range []string{"A=1", "PMI_RANK=5", "PMI_SIZE=8", "PMI_FD=3", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2",
		"MPIEXEC_JOBID=j1", "MPIEXEC_RANK=5", "MPIEXEC_SIZE=8", "MPIEXEC_LOCAL_RANK=1", "MPIEXEC_LOCAL_SIZE=2",
		"MPIEXEC_NODE_RANK=2", "MPIEXEC_NNODES=3", "MPIEXEC_APPNUM=1", "MPIEXEC_HOST=n3", "GFORTRAN_UNBUFFERED_PRECONNECTED=y"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	if job.EnvValue(env, "PMI_HOSTNAME") != "" {
		t.Error("PMI_HOSTNAME of an unknown address")
	}
}

func TestRankEnvLeavesWhatTheUserSet(t *testing.T) {
	p := Identity{Address: "10.0.0.1"}
	env := p.environment("MPIR_CVAR_CH3_INTERFACE_HOSTNAME=mine", "GFORTRAN_UNBUFFERED_PRECONNECTED=n")
	for name, want := range map[string]string{
		"MPIR_CVAR_CH3_INTERFACE_HOSTNAME": "mine", "GFORTRAN_UNBUFFERED_PRECONNECTED": "n", "PMI_HOSTNAME": "10.0.0.1"} {
		if got := job.EnvValue(env, name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
}

// Ranks of one app share the slice of its environment; no rank must see another's identity.
func TestRankEnvsAreTheirOwn(t *testing.T) {
	app := slices.Grow([]string{"A=1"}, 100)
	first := Identity{Rank: 1}.rankEnv(app)
	Identity{Rank: 2}.rankEnv(app)
	if got := job.EnvValue(first, "PMI_RANK"); got != "1" {
		t.Errorf("rank 1 sees PMI_RANK=%s", got)
	}
}

func TestNoVariableTwice(t *testing.T) {
	own := []string{"PMI_RANK=9", "MPIEXEC_RANK=9", "PWD=/x", "A=1", "A=2"}
	env := Identity{Address: "10.0.0.1"}.rankEnv(AppEnv(own, job.Env{Set: []string{"A=3"}}, job.Env{}, "/w"))
	seen := map[string]bool{}
	for _, assignment := range env {
		name, _, _ := strings.Cut(assignment, "=")
		if seen[name] {
			t.Errorf("%s is defined twice: %q", name, env)
		}
		seen[name] = true
	}
}

// A rank with GPUs of its own, and one without GPUs, keep no GPU variables of the node or launcher. Other ranks keep
// theirs.
func TestRankEnvOfGPUs(t *testing.T) {
	app := []string{"A=1", "CUDA_VISIBLE_DEVICES=7", "HIP_VISIBLE_DEVICES=7", "CUDA_DEVICE_ORDER=FASTEST_FIRST", "ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE"}
	of := func(v gpu.Vendor) []gpu.GPU {
		return []gpu.GPU{{Vendor: v, Index: 2, Tiles: []int{4, 5}, Address: "0000:07:00.0"}}
	}
	for _, test := range []struct {
		p    Identity
		want string
	}{
		{Identity{}, "CUDA_VISIBLE_DEVICES=7 HIP_VISIBLE_DEVICES=7 CUDA_DEVICE_ORDER=FASTEST_FIRST ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE"},
		{Identity{GPUs: of(gpu.NVIDIA)}, "CUDA_DEVICE_ORDER=PCI_BUS_ID ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE CUDA_VISIBLE_DEVICES=2"},
		{Identity{GPUs: of(gpu.AMD)}, "CUDA_DEVICE_ORDER=FASTEST_FIRST ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE ROCR_VISIBLE_DEVICES=2"},
		{Identity{GPUs: of(gpu.Intel)}, "CUDA_DEVICE_ORDER=FASTEST_FIRST ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE ZE_AFFINITY_MASK=2 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"},
		{Identity{NoGPUs: true}, "CUDA_DEVICE_ORDER=FASTEST_FIRST ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE CUDA_VISIBLE_DEVICES=-1 ROCR_VISIBLE_DEVICES=-1 ZE_AFFINITY_MASK=-1"},
	} {
		var got []string
		for _, assignment := range test.p.rankEnv(app) {
			for _, part := range []string{"CUDA_", "ROCR_", "HIP_", "ZE_"} {
				if strings.HasPrefix(assignment, part) {
					got = append(got, assignment)
				}
			}
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%+v:\n%s\nwant\n%s", test.p.GPUs, text, test.want)
		}
	}
}

// A dry run lists the variables that ranks get.
func TestDryRunVariables(t *testing.T) {
	var names []string
	for _, assignment := range (Identity{Address: "10.0.0.1", Slots: []int{0}, CPUs: []int{0}, Offer: job.PMIOfferPMI1}).environment() {
		name, _, _ := strings.Cut(assignment, "=")
		names = append(names, name)
	}
	want := slices.Sorted(slices.Values(format.RankVariables))
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("a rank is told %v; package format says %v", names, want)
	}
}

// The variables of placement.md 7.6, and ours. The first row has the example of that page.
func TestPinningVariables(t *testing.T) {
	for _, test := range []struct {
		name string
		p    Identity
		want string
	}{
		{"two of eight slots", Identity{Slots: []int{0, 1}, NodeSlots: 8, CPUs: []int{0, 1}, NodeCPUs: 8},
			"PSID_CPU_PINNING=0x0003 __PINNING__=00000011 MPIEXEC_BINDING=0-1"},
		{"slots are not CPUs", Identity{Slots: []int{2}, NodeSlots: 4, CPUs: []int{1, 5}, NodeCPUs: 6},
			"PSID_CPU_PINNING=0x0004 __PINNING__=100010 MPIEXEC_BINDING=1,5"},
		{"more than a group", Identity{Slots: []int{0, 4, 15, 16}, NodeSlots: 17, CPUs: []int{0}, NodeCPUs: 2},
			"PSID_CPU_PINNING=0x00018011 __PINNING__=01 MPIEXEC_BINDING=0"},
		{"room for all slots", Identity{Slots: []int{0}, NodeSlots: 33, CPUs: []int{0}, NodeCPUs: 1},
			"PSID_CPU_PINNING=0x000000000001 __PINNING__=1 MPIEXEC_BINDING=0"},
		{"not pinned", Identity{Slots: []int{1}, NodeSlots: 2, NodeCPUs: 2}, "PSID_CPU_PINNING=0x0002 MPIEXEC_BINDING=none"},
		{"numbers beyond what the node told", Identity{Slots: []int{20}, NodeSlots: 2, CPUs: []int{3}, NodeCPUs: 2},
			"PSID_CPU_PINNING=0x00100000 __PINNING__=1000 MPIEXEC_BINDING=3"},
		{"no slots", Identity{}, "MPIEXEC_BINDING=none"},
	} {
		if got := strings.Join(test.p.pinningVars(), " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// Bound ranks get the places of OpenMP threads, unless the user has set them. A launch inside the rank drops them.
func TestPlacesOfThreads(t *testing.T) {
	many := make([]int, 20_000)
	for i := range many {
		many[i] = i
	}
	for _, test := range []struct {
		name         string
		places       job.OMPPlaces
		cpus         []int
		app          string
		where, close string
	}{
		{"each its own", job.OMPPlacePerCPU, []int{0, 1, 8}, "A=1", "{0},{1},{8}", "close"},
		{"all one", job.OMPPlacePerRank, []int{4, 5}, "A=1", "{4,5}", "close"},
		{"beside others that were suggested", job.OMPPlacePerCPU, []int{3}, job.SuggestedVariable + "=A=00000000", "{3}", "close"},
		{"nothing said", "", []int{0, 1}, "A=1", "", ""},
		{"a word of another version", "sockets", []int{0, 1}, "A=1", "", ""},
		{"not bound", job.OMPPlacePerCPU, nil, "A=1", "", ""},
		{"the user's places", job.OMPPlacePerCPU, []int{0, 1}, "OMP_PLACES=threads", "threads", "close"},
		{"the user's binding", job.OMPPlacePerCPU, []int{0, 1}, "OMP_PROC_BIND=", "{0},{1}", ""},
		{"more than a variable takes", job.OMPPlacePerCPU, many, "A=1", "", ""},
	} {
		app := []string{test.app}
		env := Identity{Places: test.places, CPUs: test.cpus, NodeCPUs: 1}.rankEnv(app)
		if where, by := job.EnvValue(env, "OMP_PLACES"), job.EnvValue(env, "OMP_PROC_BIND"); where != test.where || by != test.close {
			t.Errorf("%s: OMP_PLACES=%s OMP_PROC_BIND=%s, want %s and %s", test.name, where, by, test.where, test.close)
		}
		outer := job.OuterFilter(env)
		for _, assignment := range env {
			if ours := assignment != test.app && strings.HasPrefix(assignment, "OMP_"); ours != (outer(assignment) && strings.HasPrefix(assignment, "OMP_")) {
				t.Errorf("%s: a launch from inside the rank takes %s for another's", test.name, assignment)
			}
		}
		if app[0] != test.app {
			t.Errorf("%s: other ranks of the section have %s", test.name, app[0])
		}
	}
}
