package reach

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Place is what a template can say about a host. Zero values are not known.
type Place struct {
	Host  string
	User  string // login name; empty: whatever the program takes
	Me    string // the user here, for %u where there is no other, as ssh(1) has it
	Port  int
	Index string // of the node in the job, or its name: %n
}

// shell is what is run on the node.
const shell = "/bin/sh"

/*
Argv builds the command that gives a shell on a host (cli.md section 2, SSH-4,
rm-integration.md section 3).

	PROG WORDS...            PROG ARGS... WORDS... [ssh's options] HOST /bin/sh
	PROG WORDS... with a %   PROG ARGS... WORDS... [ssh's options] /bin/sh

%h is the host, %u the user, %p the port, %n the node's index, %% a percent sign;
%c and %q stand for /bin/sh, which is not appended then. args come before ours, so
that they win: ssh takes the first value of an option. ssh's options are added
only for a program of that name.
*/
func Argv(template, args []string, at Place, timeout time.Duration) ([]string, error) {
	if len(template) == 0 {
		return nil, fmt.Errorf("-launcher-exec is empty")
	}
	argv := slices.Concat(template[:1], args)
	templated, ended := false, false
	for _, word := range template[1:] {
		expanded, commands, err := expand(word, at)
		if err != nil {
			return nil, fmt.Errorf("-launcher-exec %q: %w", template, err)
		}
		templated = templated || strings.Contains(word, "%")
		ended = ended || commands
		argv = append(argv, expanded)
	}
	if filepath.Base(template[0]) == "ssh" && !ended && !slices.Contains(argv, "--") {
		argv = append(argv, sshOptions(at, templated, timeout)...)
	}
	if !templated {
		argv = append(argv, at.Host)
	}
	if !ended {
		argv = append(argv, shell)
	}
	return argv, nil
}

// sshOptions are no X11, no terminal, no question, and an end to waiting. A template
// says user and port itself.
func sshOptions(at Place, templated bool, timeout time.Duration) []string {
	seconds := max(1, int(timeout.Round(time.Second)/time.Second))
	options := []string{"-x", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=" + strconv.Itoa(seconds)}
	if at.User != "" && !templated {
		options = append(options, "-l", at.User)
	}
	if at.Port != 0 && !templated {
		options = append(options, "-p", strconv.Itoa(at.Port))
	}
	return options
}

// expand replaces the tokens of one word and tells whether the command was among
// them.
func expand(word string, at Place) (text string, command bool, err error) {
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		if word[i] != '%' {
			b.WriteByte(word[i])
			continue
		}
		i++
		if i == len(word) {
			return "", false, fmt.Errorf("a single %% at the end of %q; write %%%%", word)
		}
		value := ""
		switch word[i] {
		case '%':
			value = "%"
		case 'c', 'q':
			value, command = shell, true
		case 'h':
			value = at.Host
		case 'u':
			value = cmp.Or(at.User, at.Me)
		case 'n':
			value = at.Index
		case 'p':
			value = strconv.Itoa(cmp.Or(at.Port, 22))
		default:
			return "", false, fmt.Errorf("unknown token %%%c; there are %%h %%u %%p %%n %%c %%q %%%%", word[i])
		}
		if value == "" {
			return "", false, fmt.Errorf("%%%c: not known; write USER@HOST in the host list", word[i])
		}
		b.WriteString(value)
	}
	return b.String(), command, nil
}
