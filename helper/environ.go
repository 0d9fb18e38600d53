//go:build linux

package helper

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
)

// bare lists all a rank gets of its node's environment with -genvnone (ENV-3).
var bare = []string{"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "LANG"}

// A variables is an environment under construction: names in order of first
// mention, and their values.
type variables struct {
	names  []string
	values map[string]string
}

func (v *variables) set(assignment string) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok || name == "" {
		return
	}
	if _, known := v.values[name]; !known {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

func (v *variables) unset(patterns []string) {
	v.names = slices.DeleteFunc(v.names, func(name string) bool {
		if !job.Matches(patterns, name) {
			return false
		}
		delete(v.values, name)
		return true
	})
}

func (v *variables) list() []string {
	list := make([]string, len(v.names), len(v.names)+24)
	for i, name := range v.names {
		list[i] = name + "=" + v.values[name]
	}
	return list
}

// appEnv composes the environment that all ranks of an app share: the node's own,
// then what came from the launcher, then what the section says; later ones win
// (cli.md section 8). PWD is where they start.
func appEnv(own []string, base, app job.Env, dir string) []string {
	v := &variables{values: make(map[string]string, len(own)+len(base.Set))}
	keepOnly := base.Bare || app.Bare
	for _, assignment := range own {
		name, _, _ := strings.Cut(assignment, "=")
		if job.Matches(job.Outer, name) || keepOnly && !slices.Contains(bare, name) {
			continue
		}
		v.set(assignment)
	}
	for _, layer := range []job.Env{base, app} {
		for _, assignment := range layer.Dirs {
			v.set(assignment)
		}
		for _, assignment := range layer.Set {
			v.set(assignment)
		}
		v.unset(layer.Unset)
	}
	v.set("PWD=" + dir)
	return v.list()
}

// existing leaves out of an environment the directories that this node does not have
// (ENV-5).
func (s *session) existing(env job.Env) job.Env {
	env.Dirs = slices.DeleteFunc(slices.Clone(env.Dirs), func(assignment string) bool {
		name, dir, _ := strings.Cut(assignment, "=")
		info, err := os.Stat(dir)
		gone := err != nil || !info.IsDir()
		if gone {
			s.log.inform("%s is not passed on: there is no directory %s here", name, dir)
		}
		return gone
	})
	return env
}

// A place is where a rank stands in its job, as its environment tells it.
type place struct {
	job                 job.ID
	size, nodes, node   int
	host                string // name of the node as the user wrote it
	address             string // where peers reach the node; empty: unknown
	iface               string // whose address that is, as the user said
	compat              []string
	meet                string // address and port for torch
	ledger              string // directory; empty: the default
	stage               string // folder with the files of --stage; empty: there are none
	rank, local, locals int
	app                 int
	spawned             bool
	pmiFD               int    // 0: none
	port                string // PMI_PORT, for rank id; empty: none
	id                  int
	merge               bool         // stderr goes where stdout goes
	window              unix.Winsize // of the rank's terminal, if it has one
	session             bool         // the rank leads one
	slots               []int        // of the node, that are the rank's
	allSlots            int          // of the node
	cpus                []int        // to which the rank is bound; nil: it is not
	allCPUs             int          // of the node, one more than their highest number
	gpus                []gpu.GPU    // the rank's own
	noGPUs              bool         // it is to see none
}

// variables lists what every rank sees of its place (cli.md section 8, pmi-wire.md
// section 1.1).
func (p place) variables() []string {
	host := p.host
	vars := []string{
		"PMI_RANK=" + strconv.Itoa(p.rank),
		"PMI_SIZE=" + strconv.Itoa(p.size),
		"MPI_LOCALRANKID=" + strconv.Itoa(p.local),
		"MPI_LOCALNRANKS=" + strconv.Itoa(p.locals),
		"MPIEXEC_JOBID=" + string(p.job),
		"MPIEXEC_RANK=" + strconv.Itoa(p.rank),
		"MPIEXEC_SIZE=" + strconv.Itoa(p.size),
		"MPIEXEC_LOCAL_RANK=" + strconv.Itoa(p.local),
		"MPIEXEC_LOCAL_SIZE=" + strconv.Itoa(p.locals),
		"MPIEXEC_NODE_RANK=" + strconv.Itoa(p.node),
		"MPIEXEC_NNODES=" + strconv.Itoa(p.nodes),
		"MPIEXEC_APPNUM=" + strconv.Itoa(p.app),
		"MPIEXEC_HOST=" + host,
	}
	if p.port != "" {
		vars = append(vars, "PMI_PORT="+p.port, "PMI_ID="+strconv.Itoa(p.id))
	} else {
		vars = append(vars, "PMI_FD="+strconv.Itoa(p.pmiFD))
	}
	if p.spawned {
		vars = append(vars, "PMI_SPAWNED=1")
	}
	vars = append(vars, p.pinning()...)
	if p.ledger != "" { // a launch from inside a rank must find the claim around it
		vars = append(vars, "MPIEXEC_LEDGER="+p.ledger)
	}
	if p.stage != "" {
		vars = append(vars, "MPIEXEC_STAGE_DIR="+p.stage)
	}
	if p.address != "" {
		vars = append(vars, "PMI_HOSTNAME="+p.address, "MPIR_CVAR_CH3_INTERFACE_HOSTNAME="+p.address)
	}
	return vars
}

// pinning lists what a rank sees of its slots and CPUs: the variables of ParaStation
// (placement.md 7.6), and ours, which has the CPUs in the kernel's notation, or none.
func (p place) pinning() []string {
	var vars []string
	if len(p.slots) > 0 {
		vars = append(vars, "PSID_CPU_PINNING="+slotMask(p.slots, p.allSlots))
	}
	if p.cpus == nil {
		return append(vars, "MPIEXEC_BINDING=none")
	}
	return append(vars, "__PINNING__="+oneByOne(p.cpus, p.allCPUs), "MPIEXEC_BINDING="+pin.Text(p.cpus))
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

// oneByOne writes a character for each CPU of a node, the highest first: 1 if it is one
// of these, else 0.
func oneByOne(cpus []int, of int) string {
	of = max(of, cpus[len(cpus)-1]+1)
	digits := bytes.Repeat([]byte{'0'}, of)
	for _, cpu := range cpus {
		digits[of-1-cpu] = '1'
	}
	return string(digits)
}

// rankEnv adds a rank's place to its app's environment. What the user set by
// hand for MPICH's address stays.
func rankEnv(app []string, p place) []string {
	env := p.devices(app)
	has := func(name string) bool {
		return slices.ContainsFunc(app, func(a string) bool { return strings.HasPrefix(a, name+"=") })
	}
	if !has("GFORTRAN_UNBUFFERED_PRECONNECTED") {
		env = append(env, "GFORTRAN_UNBUFFERED_PRECONNECTED=y")
	}
	for _, assignment := range p.variables() {
		name, _, _ := strings.Cut(assignment, "=")
		if strings.HasPrefix(name, "MPIR_") && has(name) {
			continue
		}
		env = append(env, assignment)
	}
	if p.iface != "" && !strings.Contains(p.iface, "/") && !has("MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE") {
		env = append(env, "MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE="+p.iface)
	}
	for _, assignment := range p.compatible() {
		name, _, _ := strings.Cut(assignment, "=")
		if !strings.HasPrefix(name, "MASTER_") || !has(name) { // who chose a place to meet has reasons
			env = append(env, assignment)
		}
	}
	return env
}

// devices is the environment of an app with what tells a rank its GPUs, if that was asked
// for. Only words of our own count then: those that come with the node or the launcher are
// about all GPUs, and what the user has said by hand was refused (package cli).
func (p place) devices(app []string) []string {
	if p.gpus == nil && !p.noGPUs {
		return slices.Clone(app)
	}
	tell := gpu.Visible(p.gpus, func(name string) string { return job.Value(app, name) })
	if p.noGPUs {
		tell = gpu.Hidden()
	}
	v := variables{values: make(map[string]string, len(app))}
	for _, assignment := range app {
		v.set(assignment)
	}
	v.unset(gpu.Variables)
	for _, assignment := range tell {
		v.set(assignment)
	}
	return v.list()
}
