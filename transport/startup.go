package transport

import "path"

// startupFiles maps a login shell to the file that the shell reads first when sshd runs a single command
// (sshd(8)). In this case bash reads .bashrc although it is not interactive. sh, dash, ksh and mksh read no
// file.
var startupFiles = map[string]string{
	"bash": "~/.bashrc",
	"csh":  "~/.cshrc",
	"tcsh": "~/.tcshrc or ~/.cshrc",
	"fish": "~/.config/fish/config.fish",
	"zsh":  "~/.zshenv",
}

// StartupFile returns a phrase that names the file that a login shell reads first. shell is the user's login shell on
// this machine. The login shell on the host is unknown, but usually it is the same shell.
func StartupFile(shell string) string {
	name := path.Base(shell)
	if file := startupFiles[name]; file != "" {
		return file + " (of " + name + ")"
	}
	return "its start-up file (~/.bashrc, ~/.cshrc, ~/.config/fish/config.fish, ~/.zshenv)"
}
