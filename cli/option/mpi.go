package option

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"remshell/job"
)

// Soft is the value of -soft: the set of acceptable numbers of ranks, in the syntax of the MPI standard.
type Soft struct {
	Text    string
	Members []int // descending, without duplicates; empty: not given
}

// maxMembers is the maximum number of rank counts that a value of -soft may describe.
const maxMembers = 1 << 16

func (s *Soft) UnmarshalText(text []byte) error {
	*s = Soft{Text: string(text)}
	for triplet := range strings.SplitSeq(s.Text, ",") {
		members, err := softMembers(triplet)
		if err != nil {
			return err
		}
		s.Members = append(s.Members, members...)
		if len(s.Members) > maxMembers {
			return fmt.Errorf("%q lists more than %d numbers", s.Text, maxMembers)
		}
	}
	slices.Sort(s.Members)
	s.Members = slices.Compact(s.Members)
	slices.Reverse(s.Members)
	if len(s.Members) == 0 {
		return fmt.Errorf("%q contains no number above 0", s.Text)
	}
	return nil
}

// softMembers returns the positive numbers in triplet, which is "a", "a:b" or "a:b:c". "a:b:c" means a, a+c, ... up
// to b. c may be negative (MPI-4.1, 11.8.2).
func softMembers(triplet string) ([]int, error) {
	parts := strings.Split(triplet, ":")
	numbers := make([]int, len(parts))
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n > maxNumber || n < -maxNumber || i < 2 && n < 0 {
			return nil, fmt.Errorf("%q is not a number, FIRST:LAST or FIRST:LAST:STEP", triplet)
		}
		numbers[i] = n
	}
	first, last, step := numbers[0], numbers[0], 1
	switch len(parts) {
	case 1:
	case 2, 3:
		last = numbers[1]
		if len(parts) == 3 {
			step = numbers[2]
		}
	default:
		return nil, fmt.Errorf("%q is not a number, FIRST:LAST or FIRST:LAST:STEP", triplet)
	}
	if step == 0 || step > 0 && last < first || step < 0 && last > first {
		return nil, fmt.Errorf("%q contains no numbers", triplet)
	}
	if (last-first)/step >= maxMembers {
		return nil, fmt.Errorf("%q lists more than %d numbers", triplet, maxMembers)
	}
	var members []int
	for n := first; step > 0 && n <= last || step < 0 && n >= last; n += step {
		if n > 0 {
			members = append(members, n)
		}
	}
	return members, nil
}

// Arch is the name of an architecture in Go (GOARCH).
type Arch string

// archWords maps other names of architectures to names in Go (GOARCH).
var archWords = map[string]string{
	"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64", "i386": "386", "i486": "386", "i586": "386",
	"i686": "386", "x86": "386", "armv6l": "arm", "armv7l": "arm", "armhf": "arm", "loongarch64": "loong64", "ppc64el": "ppc64le",
}

// goArchs are the architectures that a host may report, by their names in Go.
var goArchs = []string{"386", "amd64", "arm", "arm64", "loong64", "mips64", "mips64le", "ppc64", "ppc64le", "riscv64", "s390x"}

func (a *Arch) UnmarshalText(text []byte) error {
	word := strings.ToLower(string(text))
	if known, ok := archWords[word]; ok {
		word = known
	}
	*a = Arch(word)
	if !slices.Contains(goArchs, word) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(goArchs, ", "))
	}
	return nil
}

// Export is the value of --export, as in Slurm's srun.
type Export struct {
	Given bool
	All   bool // pass on the whole environment, then set Vars
	Vars  []EnvVar
}

func (e *Export) UnmarshalText(text []byte) error {
	*e = Export{Given: true}
	words := strings.Split(string(text), ",")
	for i, word := range words {
		switch {
		case strings.EqualFold(word, "all"):
			e.All = true
			continue
		case strings.EqualFold(word, "none") && len(words) == 1:
			return nil
		case strings.EqualFold(word, "none"):
			return errors.New("NONE cannot be used with other values")
		case word == "" && i == 0:
			return errors.New("the value is empty")
		}
		var v EnvVar
		if err := v.UnmarshalText([]byte(word)); err != nil {
			return err
		}
		e.Vars = append(e.Vars, v)
	}
	return nil
}

// Iface is the name of a network interface, or an IP network in CIDR notation that contains the interface's address.
type Iface string

func (i *Iface) UnmarshalText(text []byte) error {
	*i = Iface(text)
	if strings.Contains(string(text), "/") {
		if _, err := netip.ParsePrefix(string(text)); err != nil {
			return fmt.Errorf("%q is not a network such as 10.1.0.0/16", text)
		}
		return nil
	}
	if len(text) == 0 || len(text) > 15 || strings.ContainsAny(string(text), " \t:,") { // IFNAMSIZ
		return fmt.Errorf("%q is not the name of a network interface", text)
	}
	return nil
}

// PMIOffer is the value of --pmi, as a job.PMIOffer. It is empty if --pmi is not given.
type PMIOffer job.PMIOffer

// pmiOffers are the keywords that --pmi accepts, in the order in which --mpi=list prints them.
var pmiOffers = []string{"auto", "pmi1", "pmi2", "pmix", "both", "none"}

// srunPMIOffers maps values of srun's --mpi to values of --pmi.
var srunPMIOffers = map[string]string{"pmi": "pmi1", "pmix_v3": "pmix", "pmix_v4": "pmix"}

// Choices returns the values of --pmi: the keywords, and "list", which prints the keywords.
func (PMIOffer) Choices() []string { return append(pmiOffers[:len(pmiOffers):len(pmiOffers)], "list") }

func (o *PMIOffer) UnmarshalText(text []byte) error {
	word := strings.ToLower(string(text))
	if ours, known := srunPMIOffers[word]; known {
		word = ours
	}
	*o = PMIOffer(word)
	if !slices.Contains(pmiOffers, word) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(pmiOffers, ", "))
	}
	return nil
}

// PMIOffersText returns the keywords that --pmi accepts, one on each line.
func PMIOffersText() string { return strings.Join(pmiOffers, "\n") + "\n" }

// An MCAParam is a parameter of Open MPI's library. The library reads it as an environment variable.
type MCAParam struct{ Name, Value string }

func (p *MCAParam) UnmarshalText(text []byte) error {
	p.Name, p.Value, _ = strings.Cut(string(text), "=")
	if p.Name == "" || strings.ContainsAny(p.Name, "* \t\n") {
		return fmt.Errorf("%q is not the name of a parameter of Open MPI", p.Name)
	}
	return nil
}

// Compat is the value of --env-compat, a list of launchers. Ranks also get the environment variables that these
// launchers set.
type Compat []string

// compatLaunchers are the launchers whose environment variables mpiexec can set.
var compatLaunchers = slices.Concat([]string{"torch", "ompi"}, compatSystems(), []string{"mvapich"})

// Choices returns the names of launchers that --env-compat accepts.
func (Compat) Choices() []string { return compatLaunchers }

func (c *Compat) UnmarshalText(text []byte) error {
	*c = strings.Split(strings.ToLower(string(text)), ",")
	for _, word := range *c {
		if !slices.Contains(compatLaunchers, word) {
			return fmt.Errorf("%q is not one of %s", word, strings.Join(compatLaunchers, ", "))
		}
	}
	return nil
}
