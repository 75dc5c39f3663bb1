/* An echo server as one writes it by hand: a thread and an epoll set a server, connections dealt
 * out in turn, level-triggered. */

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_SERVERS = 64, EVENTS = 256, BUFFER = 1024 };

struct shared {
	int listener;
	int servers;
	int sets[MAX_SERVERS];
};

struct server {
	struct shared *shared;
	int set;
};

static int watch(int set, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

/* The listener does not block, so this takes all waiting connections. Only the first server comes
 * here.
 */
static void take(struct shared *shared)
{
	static int turn;
	int fd;

	while ((fd = accept4(shared->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		if (watch(shared->sets[turn++ % shared->servers], fd) != 0)
			close(fd);
	}
}

static void echo(int fd)
{
	char buffer[BUFFER];
	ssize_t length = read(fd, buffer, sizeof buffer);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* A client has one message under way, so the socket always has room for the answer. */
	if (length <= 0 || write(fd, buffer, (size_t)length) != length)
		close(fd);
}

static void *serve(void *argument)
{
	struct server *server = argument;
	struct epoll_event events[EVENTS];
	int count;

	while ((count = epoll_wait(server->set, events, EVENTS, -1)) >= 0 || errno == EINTR) {
		for (int i = 0; i < count; i++) {
			if (events[i].data.fd == server->shared->listener)
				take(server->shared);
			else
				echo(events[i].data.fd);
		}
	}
	return (void *)(intptr_t)errno;
}

/* Takes a listening socket that does not block. Returns an error number, and only then. */
int umcg_bench_epoll_serve(int listener, int servers)
{
	static struct shared shared;
	static struct server all[MAX_SERVERS];
	pthread_t thread;
	int error;

	if (servers < 1 || servers > MAX_SERVERS)
		return EINVAL;
	shared.listener = listener;
	shared.servers = servers;
	for (int i = 0; i < servers; i++) {
		if ((shared.sets[i] = epoll_create1(EPOLL_CLOEXEC)) < 0)
			return errno;
		all[i] = (struct server){ .shared = &shared, .set = shared.sets[i] };
	}
	if (watch(shared.sets[0], listener) != 0)
		return errno;
	for (int i = 1; i < servers; i++) {
		if ((error = pthread_create(&thread, NULL, serve, &all[i])) != 0)
			return error;
	}
	return (int)(intptr_t)serve(&all[0]);
}
