package cli

import (
	"fmt"
	"strings"

	"remshell/cli/option"
	"remshell/usererr"
)

// sshOptions translates -launcher-args, which have the syntax of ssh, to options of ssh_config for the
// built-in SSH client. It drops flags for behaviour that the client always has or never has.
func sshOptions(args []string) (options []option.SSHOption, err error) {
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if len(word) < 2 || word[0] != '-' {
			return nil, unsupportedSSHFlag(word)
		}
		flag, value := word[:2], word[2:]
		keyword, valued := sshFlags[flag]
		switch {
		case !valued && strings.Trim(word[1:], "qxXYaAkTnNfC") == "":
			continue
		case word == "-4":
			options = append(options, "AddressFamily=inet")
			continue
		case word == "-6":
			options = append(options, "AddressFamily=inet6")
			continue
		case !valued:
			return nil, unsupportedSSHFlag(word)
		case value == "" && len(args) == 0:
			return nil, &usererr.Error{Text: fmt.Sprintf("-launcher-args: %s needs a value", flag)}
		case value == "":
			value, args = args[0], args[1:]
		}
		if keyword != "" {
			value = keyword + "=" + value
		} else if i := strings.IndexAny(value, " \t="); i > 0 && value[i] != '=' { // -o "Port 22"
			value = value[:i] + "=" + strings.TrimLeft(value[i:], " \t=")
		}
		var one option.SSHOption
		if err := one.UnmarshalText([]byte(value)); err != nil {
			return nil, &usererr.Error{Text: fmt.Sprintf("-launcher-args: %s %s: %v", flag, value, err)}
		}
		options = append(options, one)
	}
	return options, nil
}

// sshFlags maps flags of ssh to keywords of ssh_config. It contains the flags that have a value and that the
// built-in SSH client supports.
var sshFlags = map[string]string{"-o": "", "-p": "Port", "-l": "User", "-i": "IdentityFile", "-J": "ProxyJump"}

func unsupportedSSHFlag(word string) error {
	return &usererr.Error{Text: fmt.Sprintf("-launcher-args: the built-in ssh does not have the option %s", option.ShellQuote(word)), Remedy: "use --ssh-option or --ssh-config, or -launcher-exec ssh"}
}
