// The program of arm64.snapshot. Its main thread was read at leaf+8 with the debugger's interface of
// qemu-aarch64 -cpu max, which signs return addresses. Built with
// aarch64-linux-gnu-gcc -O2 -g -nostdlib -static -mbranch-protection=pac-ret -fno-stack-protector
volatile int sink;
__attribute__((noinline)) void leaf(int n) { for (;;) sink += n; }
static inline __attribute__((always_inline)) void between(int n) { leaf(n + 1); sink++; }
__attribute__((noinline)) void variable(int n) { volatile char room[n]; room[0] = 1; between(n); sink += room[0]; }
__attribute__((noinline)) void large(int n) { volatile char room[8192]; room[n] = 1; variable(n + 16); sink += room[0]; }
void (*volatile call)(int) = large;
__attribute__((noinline)) int program(int n) { call(n); return sink + 1; }
void _start(void) { sink = program(3); __builtin_trap(); }
