package transport

import "path"

// startupFiles are what a login shell reads first when sshd has it run one command, as it does for us (sshd(8); bash
// reads .bashrc then although it is not interactive). sh, dash, ksh and mksh read none then.
var startupFiles = map[string]string{
	"bash": "~/.bashrc",
	"csh":  "~/.cshrc",
	"tcsh": "~/.tcshrc or ~/.cshrc",
	"fish": "~/.config/fish/config.fish",
	"zsh":  "~/.zshenv",
}

// StartupFile names the file that a login shell reads first. The shell on the host is not known; its user has mostly
// the same one as here.
func StartupFile(shell string) string {
	name := path.Base(shell)
	if file := startupFiles[name]; file != "" {
		return file + " (of " + name + ")"
	}
	return "its start-up file (~/.bashrc, ~/.cshrc, ~/.config/fish/config.fish, ~/.zshenv)"
}
