package option

import (
	"errors"
	"fmt"
	"strings"

	"remshell/hostlist"
	"remshell/job"
)

// Universe is the value of -usize: the number that programs see as MPI_UNIVERSE_SIZE.
type Universe struct {
	Text string // as given, in capitals; empty: not given
	Size int    // 0: programs get none; job.SystemSize: the slots of all hosts
}

// Choices returns the keywords that are allowed in place of a number.
func (Universe) Choices() []string { return []string{"SYSTEM", "INFINITE"} }

func (u *Universe) UnmarshalText(text []byte) error {
	*u = Universe{Text: strings.ToUpper(string(text))}
	switch u.Text {
	case "SYSTEM":
		u.Size = job.SystemSize
		return nil
	case "INFINITE":
		return nil
	}
	n, err := parseNumber(string(text))
	if err == nil {
		err = atLeast(1, n)
	}
	if err != nil {
		return fmt.Errorf("%w; SYSTEM and INFINITE are also allowed", err)
	}
	u.Size = n
	return nil
}

func (u Universe) String() string { return u.Text }

// SpawnHosts is the value of --spawn-hosts: the hosts on which ranks may spawn processes. It is a keyword such as
// "any", or a list of hosts, which may contain "any".
type SpawnHosts struct {
	Text  string
	Word  string // candidates, job or none; empty: a list
	Any   bool
	Hosts []hostlist.Entry
}

// Choices returns the keywords that are allowed in place of a list.
func (SpawnHosts) Choices() []string { return []string{"candidates", "job", "any", "none"} }

func (h *SpawnHosts) UnmarshalText(text []byte) error {
	*h = SpawnHosts{Text: string(text)}
	switch word := strings.ToLower(h.Text); word {
	case "candidates", "job", "none":
		h.Word = word
		return nil
	}
	entries, err := hostlist.Parse("--spawn-hosts", h.Text)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch name := strings.ToLower(e.Host); {
		case e.Exclude:
			return errors.New("this option cannot exclude hosts with ^")
		case name == "any":
			h.Any = true
		case name == "candidates" || name == "job" || name == "none":
			return fmt.Errorf("%q cannot be used with other values", name)
		default:
			h.Hosts = append(h.Hosts, e)
		}
	}
	return nil
}
