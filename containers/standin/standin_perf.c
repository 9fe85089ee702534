/* Collectives on CPUs over MPI, with the options and the table of nccl-tests.
 *
 * Stands in for all_reduce_perf, all_gather_perf and alltoall_perf where there are no GPUs: the data
 * really goes from rank to rank and is checked, so a lost or changed byte shows up as a wrong value.
 * The name it is called by chooses the collective. With -g N one process holds the buffers of N
 * ranks, as nccl-tests drives N GPUs.
 *
 * Environment:
 *   STANDIN_MEMORY_MB     most memory of one process for buffers; larger messages are left out, as
 *                         nccl-tests leaves out what a GPU cannot hold (default 256)
 *   STANDIN_NETWORK       every rank logs that it uses this network, in the words of NCCL's INFO log
 *   STANDIN_CORRUPT_RANK  this rank damages one value that it received
 *   STANDIN_PAUSE_MS      sleep so long after every collective, so that a long run needs no processor
 *   STANDIN_HANG_BYTES    never finish messages of this size or more, as a hanging collective
 *   STANDIN_CHATTER_MB    print so many megabytes of lines that say nothing before the table
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum operation { ALL_REDUCE, ALL_GATHER, ALLTOALL };

struct type {
    const char *name;
    MPI_Datatype mpi;
    size_t size;
    enum { UNSIGNED, FLOATING } kind;
};

struct settings {
    enum operation operation;
    const char *program;     /* as nccl-tests names it */
    struct type type;
    size_t min_bytes, max_bytes, step_bytes;
    int step_factor, iterations, warmup, cycles, check, local;
};

struct world {
    int process, processes, local, rank, ranks;
    char host[256];
};

/* One message size: buffers of all local ranks, one behind the other. */
struct message {
    size_t count;            /* elements that the table shows */
    size_t send, receive;    /* elements that one rank sends and receives */
    char *from, *to, *work_from, *work_to;
};

struct measured {
    double seconds;
    long wrong;              /* -1: not checked */
};

/* Small whole numbers, so that sums of floats are exact. */
enum { PERIOD = 251 };

/* A prime period tells neighbours and ranks apart. Sums of bytes must not overflow, because what
 * they become then differs from one MPI operation to the next. */
static unsigned value_of(const struct settings *s, const struct world *w, size_t index, int rank)
{
    const unsigned value = (unsigned)((index * 7 + (size_t)rank * 13) % PERIOD);
    return s->operation == ALL_REDUCE && s->type.size == 1 ? value % (255u / (unsigned)w->ranks + 1) : value;
}

static void store(const struct type *type, char *at, size_t index, uint64_t value)
{
    if (type->kind == FLOATING) {
        if (type->size == 4)
            ((float *)at)[index] = (float)value;
        else
            ((double *)at)[index] = (double)value;
        return;
    }
    switch (type->size) {
    case 1: ((uint8_t *)at)[index] = (uint8_t)value; break;
    case 4: ((uint32_t *)at)[index] = (uint32_t)value; break;
    default: ((uint64_t *)at)[index] = value;
    }
}

static int differs(const struct type *type, const char *at, size_t index, uint64_t value)
{
    if (type->kind == FLOATING)
        return type->size == 4 ? ((const float *)at)[index] != (float)value
                               : ((const double *)at)[index] != (double)value;
    switch (type->size) {
    case 1: return ((const uint8_t *)at)[index] != (uint8_t)value;
    case 4: return ((const uint32_t *)at)[index] != (uint32_t)value;
    default: return ((const uint64_t *)at)[index] != value;
    }
}

static void add(const struct type *type, char *to, const char *from, size_t count)
{
    MPI_Reduce_local(from, to, (int)count, type->mpi, MPI_SUM);
}

/* Fills the send buffers; in place, the part of the receive buffer that is sent from. */
static void fill(const struct settings *s, const struct world *w, struct message *m, int in_place)
{
    const size_t bytes = s->type.size;
    memset(m->to, 0, (size_t)w->local * m->receive * bytes);
    for (int local = 0; local < w->local; local++) {
        const int rank = w->rank + local;
        char *target = m->from + (size_t)local * m->send * bytes;
        if (in_place) {
            target = m->to + (size_t)local * m->receive * bytes;
            if (s->operation == ALL_GATHER)
                target += (size_t)rank * m->send * bytes;
        }
        for (size_t index = 0; index < m->send; index++)
            store(&s->type, target, index, value_of(s, w, index, rank));
    }
}

/* Moves the data once. Buffers of the local ranks are packed into one message of the process. */
static void collective(const struct settings *s, const struct world *w, struct message *m, int in_place)
{
    const size_t bytes = s->type.size;
    const size_t local = (size_t)w->local;
    const char *from = in_place && s->operation != ALL_GATHER ? m->to : m->from;
    const size_t base = m->send / (size_t)w->ranks;

    switch (s->operation) {
    case ALL_REDUCE:
        memcpy(m->work_from, from, m->send * bytes);
        for (size_t i = 1; i < local; i++)
            add(&s->type, m->work_from, from + i * m->send * bytes, m->send);
        MPI_Allreduce(m->work_from, m->work_to, (int)m->send, s->type.mpi, MPI_SUM, MPI_COMM_WORLD);
        for (size_t i = 0; i < local; i++)
            memcpy(m->to + i * m->receive * bytes, m->work_to, m->send * bytes);
        break;
    case ALL_GATHER:
        for (size_t i = 0; i < local; i++) {
            const char *part = from + i * m->send * bytes;
            if (in_place)
                part = m->to + (i * m->receive + ((size_t)w->rank + i) * m->send) * bytes;
            memcpy(m->work_from + i * m->send * bytes, part, m->send * bytes);
        }
        MPI_Allgather(m->work_from, (int)(local * m->send), s->type.mpi, m->work_to,
                      (int)(local * m->send), s->type.mpi, MPI_COMM_WORLD);
        for (size_t i = 0; i < local; i++)
            memcpy(m->to + i * m->receive * bytes, m->work_to, m->receive * bytes);
        break;
    case ALLTOALL:
        /* by process, then by local rank here, then by local rank there */
        for (size_t p = 0; p < (size_t)w->processes; p++)
            for (size_t i = 0; i < local; i++)
                memcpy(m->work_from + (p * local + i) * local * base * bytes,
                       from + (i * m->send + p * local * base) * bytes, local * base * bytes);
        MPI_Alltoall(m->work_from, (int)(local * local * base), s->type.mpi, m->work_to,
                     (int)(local * local * base), s->type.mpi, MPI_COMM_WORLD);
        for (size_t p = 0; p < (size_t)w->processes; p++)
            for (size_t there = 0; there < local; there++)
                for (size_t i = 0; i < local; i++)
                    memcpy(m->to + (i * m->receive + (p * local + there) * base) * bytes,
                           m->work_to + ((p * local + there) * local + i) * base * bytes, base * bytes);
        break;
    }
}

static uint64_t expected(const struct settings *s, const struct world *w, const struct message *m,
                         int rank, size_t index, const uint64_t *sums)
{
    const size_t base = m->send / (size_t)w->ranks;
    switch (s->operation) {
    case ALL_REDUCE: return sums[index % PERIOD];
    case ALL_GATHER: return value_of(s, w, index % m->send, (int)(index / m->send));
    default: return value_of(s, w, (size_t)rank * base + index % base, (int)(index / base));
    }
}

static long count_wrong(const struct settings *s, const struct world *w, struct message *m)
{
    const char *corrupt = getenv("STANDIN_CORRUPT_RANK");
    uint64_t sums[PERIOD] = {0};
    long wrong = 0, all = 0;

    for (size_t index = 0; index < PERIOD; index++)
        for (int rank = 0; rank < w->ranks; rank++)
            sums[index] += value_of(s, w, index, rank);
    for (int local = 0; local < w->local; local++) {
        const int rank = w->rank + local;
        char *at = m->to + (size_t)local * m->receive * s->type.size;
        if (corrupt && *corrupt && rank == atoi(corrupt) && m->receive)
            at[0] ^= 0x41;
        for (size_t index = 0; index < m->receive; index++)
            wrong += differs(&s->type, at, index, expected(s, w, m, rank, index, sums));
    }
    MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static long number_from(const char *variable)
{
    const char *text = getenv(variable);
    return text ? atol(text) : 0;
}

/* Moves the data once, and then does what the environment asks for. */
static void step(const struct settings *s, const struct world *w, struct message *m, int in_place)
{
    const long pause_ms = number_from("STANDIN_PAUSE_MS"), hang = number_from("STANDIN_HANG_BYTES");

    while (hang > 0 && m->count * s->type.size >= (size_t)hang)
        pause();
    collective(s, w, m, in_place);
    if (pause_ms > 0)
        usleep((useconds_t)pause_ms * 1000);
}

static struct measured measure(const struct settings *s, const struct world *w, struct message *m, int in_place)
{
    struct measured result = {0, -1};
    double mine, sum;

    fill(s, w, m, in_place);
    for (int i = 0; i < s->warmup; i++)
        step(s, w, m, in_place);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < s->iterations; i++)
        step(s, w, m, in_place);
    mine = (MPI_Wtime() - start) / s->iterations;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    result.seconds = sum / w->processes;
    /* alltoall in place overwrites what it still has to send, so nccl-tests does not check it */
    if (s->check && !(in_place && s->operation == ALLTOALL)) {
        fill(s, w, m, in_place);
        collective(s, w, m, in_place);
        result.wrong = count_wrong(s, w, m);
    }
    return result;
}

static void print_half(const struct settings *s, const struct world *w, const struct message *m,
                       struct measured got, double *sum)
{
    const double n = w->ranks;
    const double shown = (double)(m->receive > m->send ? m->receive : m->send) * (double)s->type.size;
    const double algorithm = got.seconds > 0 ? shown / 1e9 / got.seconds : 0;
    const double bus = algorithm * (s->operation == ALL_REDUCE ? 2 * (n - 1) / n : (n - 1) / n);
    const double us = got.seconds * 1e6;

    *sum += bus;
    printf("  %7.*f  %6.2f  %6.2f", us >= 10000 ? 0 : us >= 1000 ? 1 : 2, us, algorithm, bus);
    if (got.wrong < 0)
        printf("      N/A");
    else
        printf("  %7ld", got.wrong);
}

/* Elements for a message of so many bytes; parts of gathers are whole multiples of 16 bytes. */
static struct message plan(const struct settings *s, const struct world *w, size_t bytes)
{
    struct message m = {0};
    const size_t all = bytes / s->type.size;
    const size_t part = all / (size_t)w->ranks / (16 / s->type.size) * (16 / s->type.size);

    m.count = s->operation == ALL_REDUCE ? all : part;
    m.send = s->operation == ALLTOALL ? part * (size_t)w->ranks : m.count;
    m.receive = s->operation == ALL_REDUCE ? all : part * (size_t)w->ranks;
    return m;
}

/* Returns the wrong values of the sweep; adds bandwidths to the average. */
static long sweep(const struct settings *s, const struct world *w, double *sum, long *halves)
{
    long failed = 0;

    for (size_t bytes = s->min_bytes; bytes <= s->max_bytes;
         bytes = s->step_bytes ? bytes + s->step_bytes : bytes * (size_t)s->step_factor) {
        struct message m = plan(s, w, bytes);
        const size_t room = (size_t)w->local * (m.send > m.receive ? m.send : m.receive) * s->type.size + 16;
        m.from = calloc(1, room);
        m.to = calloc(1, room);
        m.work_from = calloc(1, room);
        m.work_to = calloc(1, room);
        if (!m.from || !m.to || !m.work_from || !m.work_to) {
            fprintf(stderr, "%s: out of memory at %zu bytes\n", w->host, bytes);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        const struct measured out = measure(s, w, &m, 0);
        const struct measured in = measure(s, w, &m, 1);
        if (w->process == 0) {
            const size_t shown = (m.send > m.receive ? m.send : m.receive) * s->type.size;
            printf("%12zu  %12zu  %8s  %6s  %6d", shown, m.count, s->type.name,
                   s->operation == ALL_REDUCE ? "sum" : "none", -1);
            print_half(s, w, &m, out, sum);
            print_half(s, w, &m, in, sum);
            printf("\n");
            fflush(stdout);
        }
        *halves += 2;
        failed += (out.wrong > 0) + (in.wrong > 0);
        free(m.from);
        free(m.to);
        free(m.work_from);
        free(m.work_to);
    }
    return failed;
}

static void print_devices(const struct world *w)
{
    struct place { int rank, pid; char host[256]; } mine = {w->rank, (int)getpid(), ""}, *all = NULL;
    const char *network = getenv("STANDIN_NETWORK");

    memcpy(mine.host, w->host, sizeof mine.host);
    if (w->process == 0)
        all = calloc((size_t)w->processes, sizeof *all);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (w->process == 0) {
        printf("#\n# Using devices\n");
        int device = 0;
        for (int process = 0; process < w->processes; process++) {
            if (process && strcmp(all[process].host, all[process - 1].host))
                device = 0;
            for (int local = 0; local < w->local; local++, device++)
                printf("#  Rank %2d Group  0 Pid %6d on %10s device %2d [0x00] CPU\n",
                       all[process].rank + local, all[process].pid, all[process].host, device);
        }
        free(all);
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (network && *network)
        for (int local = 0; local < w->local; local++)
            printf("%s:%d:%d [%d] NCCL INFO Using network %s\n", w->host, (int)getpid(), (int)getpid(),
                   local, network);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* As a tool does whose debug output somebody left on. */
static void chatter(void)
{
    const long lines = number_from("STANDIN_CHATTER_MB") * (1 << 20) / 128;

    for (long line = 0; line < lines; line++)
        printf("chatter %012ld of %012ld %*s\n", line, lines, 89, "nothing to see");
}

static void print_heading(void)
{
    printf("#\n"
           "#                                                              out-of-place                       in-place          \n"
           "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n"
           "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \n");
}

static int usage(const char *program)
{
    fprintf(stderr,
            "USAGE: %s [-b minbytes] [-e maxbytes] [-f stepfactor | -i stepbytes] [-n iters]\n"
            "       [-w warmup_iters] [-N run_cycles] [-c check 0|1] [-g gpus per process]\n"
            "       [-d int8|uint8|int32|uint32|int64|uint64|float|double]\n", program);
    return EXIT_FAILURE;
}

static size_t parse_size(const char *text)
{
    char *end;
    const double number = strtod(text, &end);
    const char *units = "KMGT";
    double factor = 1;

    if (*end) {
        const char *unit = strchr(units, *end & ~0x20);
        if (!unit || end[1])
            return 0;
        for (long i = unit - units; i >= 0; i--)
            factor *= 1024;
    }
    return number > 0 ? (size_t)(number * factor) : 0;
}

/* Signed and unsigned sums have the same bits, so both are added as unsigned. */
static int parse_type(const char *name, struct type *type)
{
    const struct type known[] = {
        {"int8", MPI_UINT8_T, 1, UNSIGNED},   {"uint8", MPI_UINT8_T, 1, UNSIGNED},
        {"int32", MPI_UINT32_T, 4, UNSIGNED}, {"uint32", MPI_UINT32_T, 4, UNSIGNED},
        {"int64", MPI_UINT64_T, 8, UNSIGNED}, {"uint64", MPI_UINT64_T, 8, UNSIGNED},
        {"float", MPI_FLOAT, 4, FLOATING},    {"double", MPI_DOUBLE, 8, FLOATING},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) {
            *type = known[i];
            return 1;
        }
    return 0;
}

static int parse_options(int argc, char **argv, struct settings *s)
{
    const char *slash = strrchr(argv[0], '/');
    int option;

    const char *called = slash ? slash + 1 : argv[0];
    if (strstr(called, "all_gather")) {
        s->operation = ALL_GATHER;
        s->program = "all_gather_perf";
    } else if (strstr(called, "alltoall")) {
        s->operation = ALLTOALL;
        s->program = "alltoall_perf";
    } else {
        s->operation = ALL_REDUCE;
        s->program = "all_reduce_perf";
    }
    parse_type("float", &s->type);
    s->min_bytes = s->max_bytes = 32u << 20;
    s->step_bytes = 1u << 20;
    s->step_factor = 1;
    s->iterations = 20;
    s->warmup = s->cycles = s->check = s->local = 1;
    while ((option = getopt(argc, argv, "b:e:f:i:n:w:N:c:g:d:t:h")) != -1)
        switch (option) {
        case 'b': s->min_bytes = parse_size(optarg); break;
        case 'e': s->max_bytes = parse_size(optarg); break;
        case 'f': s->step_factor = atoi(optarg); s->step_bytes = 0; break;
        case 'i': s->step_bytes = parse_size(optarg); break;
        case 'n': s->iterations = atoi(optarg); break;
        case 'w': s->warmup = atoi(optarg); break;
        case 'N': s->cycles = atoi(optarg); break;
        case 'c': s->check = atoi(optarg); break;
        case 'g': s->local = atoi(optarg); break;
        case 't': break;
        case 'd':
            if (!parse_type(optarg, &s->type))
                return 0;
            break;
        default: return 0;
        }
    return s->min_bytes && s->max_bytes >= s->min_bytes && (s->step_bytes || s->step_factor > 1) &&
           s->iterations > 0 && s->warmup >= 0 && s->cycles > 0 && s->local > 0 && optind == argc;
}

/* Four buffers of every local rank must fit, and MPI counts elements in an int. */
static size_t most_bytes(const struct settings *s)
{
    const char *text = getenv("STANDIN_MEMORY_MB");
    const long megabytes = text && atol(text) > 0 ? atol(text) : 256;
    const size_t fits = ((size_t)megabytes << 20) / 4 / (size_t)s->local;
    const size_t counted = ((size_t)1 << 30) / (size_t)s->local;
    return fits < counted ? fits : counted;
}

int main(int argc, char **argv)
{
    struct settings s = {0};
    struct world w = {0};
    double sum = 0;
    long halves = 0, failed = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &w.process);
    MPI_Comm_size(MPI_COMM_WORLD, &w.processes);
    gethostname(w.host, sizeof w.host - 1);
    if (!parse_options(argc, argv, &s)) {
        if (w.process == 0)
            usage(argv[0]);
        MPI_Finalize();
        return EXIT_FAILURE;
    }
    w.local = s.local;
    w.rank = w.process * s.local;
    w.ranks = w.processes * s.local;
    if (w.process == 0) {
        printf("# readiness stand-in for nccl-tests: collectives on CPUs over MPI\n"
               "# Collective test starting: %s\n", s.program);
        printf("# nThread 1 nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d "
               "agg iters: 1 validation: %d graph: 0\n",
               s.local, s.min_bytes, s.max_bytes, s.step_bytes ? s.step_bytes : (size_t)s.step_factor,
               s.step_bytes ? "bytes" : "factor", s.warmup, s.iterations, s.check);
    }
    if (s.max_bytes > most_bytes(&s)) {
        s.max_bytes = most_bytes(&s);
        if (w.process == 0)
            printf("#\n# Reducing maxBytes to %zu due to memory limitation\n", s.max_bytes);
    }
    print_devices(&w);
    if (w.process == 0) {
        chatter();
        print_heading();
    }
    for (int cycle = 0; cycle < s.cycles; cycle++)
        failed += sweep(&s, &w, &sum, &halves);
    if (w.process == 0) {
        printf("# Out of bounds values : %ld %s\n", failed, failed ? "FAILED" : "OK");
        printf("# Avg bus bandwidth    : %g \n#\n", halves ? sum / (double)halves : 0);
        printf("# Collective test concluded: %s\n", s.program);
        fflush(stdout);
    }
    MPI_Finalize();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
