package batch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"remshell/text"
)

// condor describes HTCondor. HTCondor starts a job of the parallel universe once on each node of the job. The job's
// script calls HTCondor's sshd.sh, which starts an SSH server on each node and writes the addresses of the servers
// into a file on the first node. A job of any other universe has one host (rm-integration.md 2.8).
var condor = System{
	Name: "condor", Title: "HTCondor",

	Variable: "_CONDOR_PROCNO",
	Inside: func(w Inputs) bool {
		return w.set("_CONDOR_PROCNO") && w.set("_CONDOR_NPROCS") || w.set("_CONDOR_JOB_AD")
	},
	Job:     condorJob,
	Hosts:   condorHosts,
	AnyHost: true,
	Threads: condorThreads,

	Logins: true,
}

// condorHosts returns the hosts of an HTCondor job. On a node of the job other than the first, the allocation is
// Idle, since mpiexec has nothing to do there.
func condorHosts(w Inputs, _ Options) (Allocation, error) {
	nodes := 1
	if w.set("_CONDOR_PROCNO") {
		nodes = w.count("_CONDOR_NPROCS")
	}
	node, _ := number(w.value("_CONDOR_PROCNO"))
	switch {
	case nodes < 2:
		return condorHere(w)
	case node > 0:
		return Allocation{Source: "_CONDOR_PROCNO", Idle: true}, nil
	case w.set("MACHINE_FILE"):
		a := Allocation{Source: "MACHINE_FILE"}
		var l list
		missing, wrong := w.readLines(a.Source, w.value(a.Source), l.countLineParser(false))
		a.Hosts = l.all()
		return a, linesError(missing, wrong)
	case !w.set("_CONDOR_SCRATCH_DIR"):
		return Allocation{}, newUnreadError("neither MACHINE_FILE nor _CONDOR_SCRATCH_DIR is set")
	}
	return condorContact(w, nodes)
}

// condorHere returns an allocation of only this host, with the CPUs of its HTCondor slot.
func condorHere(w Inputs) (Allocation, error) {
	cpus, source, err := condorSlot(w)
	if err != nil {
		return Allocation{}, newUnreadError(err.Error())
	}
	return Allocation{Source: source, Hosts: []Host{{Name: "localhost", Tasks: cpus}}}, nil
}

// condorThreads returns the value of OMP_NUM_THREADS that HTCondor sets, which is the number of CPUs of the slot. It
// returns 0 if HTCondor does not set the variable.
func condorThreads(w Inputs) int {
	cpus, _, _ := condorSlot(w)
	return cpus
}

// condorSlot returns the number of CPUs of the HTCondor slot on this host. source is the variable or file that contains
// this number.
func condorSlot(w Inputs) (cpus int, source string, err error) {
	source = "_CONDOR_MACHINE_AD"
	slot, err := w.ad(source, ".machine.ad", "cpus")
	if cpus = slot["cpus"]; cpus == 0 {
		source, cpus = "_CONDOR_JOB_AD", condorRequest(w)
	}
	switch {
	case cpus > 0 && cpus <= maxCount:
		return cpus, source, nil
	case err == nil:
		err = errors.New("neither .machine.ad nor .job.ad contains the number of CPUs of the job")
	}
	return 0, "", err
}

// condorRequest returns how many CPUs the job has requested on each node, or 0 if that number is unknown.
func condorRequest(w Inputs) int {
	asked, _ := w.ad("_CONDOR_JOB_AD", ".job.ad", "requestcpus")
	return min(asked["requestcpus"], maxCount)
}

// ad reads numeric attributes from a ClassAd file that HTCondor has written for the job. The environment variable
// called variable contains the path of the file. If it is not set, ad reads the file called name in the job's scratch
// directory.
func (w Inputs) ad(variable, name string, attributes ...string) (numbers map[string]int, err error) {
	numbers = make(map[string]int)
	file := cmp.Or(w.value(variable), w.value("_CONDOR_SCRATCH_DIR")+"/"+name)
	missing, wrong := w.readLines(variable, file, func(_ int, words []string) error {
		attribute := strings.ToLower(words[0])
		if len(words) == 3 && words[1] == "=" && slices.Contains(attributes, attribute) {
			if n, ok := number(words[2]); ok {
				numbers[attribute] = n
			}
		}
		return nil
	})
	return numbers, cmp.Or(missing, wrong)
}

// startServers is the hint that is printed if the script of a parallel job has not started the SSH servers.
const startServers = `start the SSH servers of the job first: . "$(condor_config_val LIBEXEC)/sshd.sh" $_CONDOR_PROCNO $_CONDOR_NPROCS`

// A contact is one line of HTCondor's contact file. It says where the SSH server of one node is.
type contact struct {
	node, port, run int
	host, user, dir string
	line            int
}

// condorContact returns the hosts in HTCondor's contact file. HTCondor's script sshd.sh appends lines to that file each
// time the job starts. condorContact uses only the lines of the newest start. There must be one line for each of the nodes.
func condorContact(w Inputs, nodes int) (Allocation, error) {
	folder := w.value("_CONDOR_SCRATCH_DIR")
	a := Allocation{Source: "contact"}
	var all []contact
	missing, wrong := w.readLines(a.Source, folder+"/contact", func(line int, words []string) error {
		c, err := contactOf(words)
		c.line = line
		switch {
		case err != nil:
			return err
		case len(all) > 0 && c.run < all[0].run:
			return nil
		case len(all) > 0 && c.run > all[0].run:
			all = all[:0]
		}
		all = append(all, c)
		return nil
	})
	switch {
	case missing != nil:
		return a, unreadError{missing.Error(), startServers}
	case wrong != nil:
		return a, wrong
	}
	slices.SortStableFunc(all, func(a, b contact) int { return cmp.Compare(a.node, b.node) })
	for i, c := range all {
		if c.node != i || len(all) != nodes {
			return a, newUnreadError(fmt.Sprintf("%s/contact has %s for the newest run, but must have one for each of %d nodes", folder, text.Count(len(all), "line"), nodes))
		}
	}
	var l list
	cpus := max(1, condorRequest(w))
	for _, c := range all {
		key := fmt.Sprintf("%s/tmp/%d.key", folder, c.node)
		if err := l.add(Host{Name: c.host, Tasks: cpus, Folder: c.dir, Login: Login{User: c.user, Port: c.port, Key: key}}); err != nil {
			return a, fmt.Errorf("contact line %d: %w", c.line, err)
		}
	}
	a.Hosts, a.Folder = l.all(), all[0].dir
	return a, nil
}

// maxFolder is the maximum length of a directory's path in bytes: PATH_MAX of Linux.
const maxFolder = 4096

// contactOf parses a line PROCNO HOST PORT USER DIR RUN of the contact file. The last field, RUN, is missing in
// files of older HTCondor versions.
func contactOf(words []string) (c contact, err error) {
	if len(words) != 5 && len(words) != 6 {
		return c, fmt.Errorf("the line has %s, but must have the form PROCNO HOST PORT USER DIR RUN", text.Count(len(words), "word"))
	}
	ok := true
	digits := func(word string, most int) int {
		n, isNumber := number(word)
		ok = ok && isNumber && n <= most
		return n
	}
	c = contact{node: digits(words[0], maxHosts), host: words[1], port: digits(words[2], 65535), user: words[3], dir: words[4]}
	if len(words) == 6 {
		c.run = digits(words[5], maxNumber)
	}
	if !ok || c.port == 0 {
		return c, fmt.Errorf("the line must have the form PROCNO HOST PORT USER DIR RUN, where PROCNO, PORT and RUN are numbers")
	}
	if hostName(c.user) != nil {
		return c, fmt.Errorf("%s is not a user name", quoted(c.user))
	}
	if c.dir[0] != '/' || len(c.dir) > maxFolder {
		return c, fmt.Errorf("%s is not an absolute path", quoted(c.dir))
	}
	return c, nil
}

// condorJob returns the job's ID, ClusterId.ProcId, from its ClassAd. It returns "" if the ClassAd has no ID.
func condorJob(w Inputs) string {
	ids, _ := w.ad("_CONDOR_JOB_AD", ".job.ad", "clusterid", "procid")
	cluster, known := ids["clusterid"]
	if !known {
		return ""
	}
	return fmt.Sprintf("%d.%d", cluster, ids["procid"])
}
