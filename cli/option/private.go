package option

// PrivateVariables are environment variables that describe this host, session or terminal. mpiexec does not
// pass them on to ranks; a rank has its own node's values instead (cli.md ENV-4). The PSI_* switches are in
// the list because they apply to this job and not to jobs that its ranks start (placement.md 7.6).
var PrivateVariables = []string{
	"SSH_*", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_SESSION_*", "XDG_VTNR",
	"XDG_SEAT", "DBUS_SESSION_BUS_ADDRESS", "HOSTNAME", "HOST", "HOSTTYPE", "MACHTYPE", "MAIL", "LOGNAME",
	"USER", "HOME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "TTY", "GPG_TTY", "WINDOWID", "STY", "TMUX*",
	"TERM_PROGRAM*", "KONSOLE_*", "VTE_VERSION", "COLUMNS", "LINES", "LS_COLORS", "PROMPT_COMMAND", "PS1",
	"BASH_ENV", "ENV", "KRB5CCNAME", "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET",
	"LISTEN_*", "MAINPID", "GNOME_*", "GTK_*", "QT_*", "SUDO_*",
	"PSI_EXCLUSIVE", "PSI_OVERBOOK", "PSI_LOOP_NODES_FIRST", "PSI_WAIT",
}
