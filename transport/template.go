package transport

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// shell is the program that transports run on a node.
const shell = "/bin/sh"

/*
ShellCommand returns the command that runs a shell on a host (cli.md section 2, rule SSH-4, rm-integration.md
section 3).

	PROG WORDS...            PROG ARGS... WORDS... [ssh's options] HOST /bin/sh
	PROG WORDS... with a %   PROG ARGS... WORDS... [ssh's options] /bin/sh

In the words, %h stands for the host, %u for the user, %p for the port, %n for the host's index, and %% for a percent
sign. If the host has no user, %u stands for localUser, the user on this machine, as in ssh(1). %c and %q stand for
/bin/sh, which is then not appended. args come before the other options, because ssh uses the first value of an
option. The options of ssh are added only if the program's name is ssh.
*/
func ShellCommand(template, args []string, host Host, localUser string, timeout time.Duration) ([]string, error) {
	if len(template) == 0 {
		return nil, fmt.Errorf("-launcher-exec is empty")
	}
	argv := slices.Concat(template[:1], args)
	templated, ended := false, false
	for _, word := range template[1:] {
		expanded, commands, err := expandTokens(word, host, localUser)
		if err != nil {
			return nil, fmt.Errorf("-launcher-exec %q: %w", template, err)
		}
		templated = templated || strings.Contains(word, "%")
		ended = ended || commands
		argv = append(argv, expanded)
	}
	if isSSH(template) && !ended && !slices.Contains(argv, "--") {
		argv = append(argv, sshOptions(host, templated, timeout)...)
	}
	if !templated {
		argv = append(argv, host.address())
	}
	if !ended {
		argv = append(argv, shell)
	}
	return argv, nil
}

// isSSH reports whether the program is ssh(1).
func isSSH(template []string) bool { return filepath.Base(template[0]) == "ssh" }

// sshOptions returns the options of ssh that turn off X11 forwarding, the terminal and prompts, and set a connect
// timeout. It adds user and port unless the template has tokens, because a template with tokens contains user and
// port itself.
func sshOptions(host Host, templated bool, timeout time.Duration) []string {
	seconds := max(1, int(timeout.Round(time.Second)/time.Second))
	options := []string{"-x", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=" + strconv.Itoa(seconds)}
	if host.User != "" && !templated {
		options = append(options, "-l", host.User)
	}
	if host.Port != 0 && !templated {
		options = append(options, "-p", strconv.Itoa(host.Port))
	}
	return options
}

// expandTokens replaces the tokens of one word. command is true if the word contains a token for the command
// (%c or %q).
func expandTokens(word string, host Host, localUser string) (text string, command bool, err error) {
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		if word[i] != '%' {
			b.WriteByte(word[i])
			continue
		}
		i++
		if i == len(word) {
			return "", false, fmt.Errorf("%q ends with a single %%; write %%%%", word)
		}
		value := ""
		switch word[i] {
		case '%':
			value = "%"
		case 'c', 'q':
			value, command = shell, true
		case 'h':
			value = host.address()
		case 'u':
			value = cmp.Or(host.User, localUser)
		case 'n':
			value = strconv.Itoa(host.Index)
		case 'p':
			value = strconv.Itoa(cmp.Or(host.Port, 22))
		default:
			return "", false, fmt.Errorf("%%%c is not known; allowed: %%h %%u %%p %%n %%c %%q %%%%", word[i])
		}
		if value == "" {
			return "", false, fmt.Errorf("the value of %%%c is not known; write USER@HOST in the host list", word[i])
		}
		b.WriteString(value)
	}
	return b.String(), command, nil
}
