/* list.h - an intrusive doubly linked ring; the head is a node too, so nothing is ever NULL. */
#ifndef GW_BASE_LIST_H
#define GW_BASE_LIST_H

#include <stddef.h>

struct gw_list {
    struct gw_list *next, *prev;
};

#define gw_list_of(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))
#define gw_list_each(node, head) for (struct gw_list *node = (head)->next; node != (head); node = node->next)
#define gw_list_each_safe(node, tmp, head) \
    for (struct gw_list *node = (head)->next, *tmp = node->next; node != (head); node = tmp, tmp = node->next)

static inline void gw_list_init(struct gw_list *l)
{
    l->next = l->prev = l;
}

static inline int gw_list_empty(const struct gw_list *l)
{
    return l->next == l;
}

static inline void gw_list_append(struct gw_list *head, struct gw_list *node)
{
    node->prev = head->prev, node->next = head;
    head->prev->next = node, head->prev = node;
}

static inline void gw_list_remove(struct gw_list *node)
{
    node->prev->next = node->next, node->next->prev = node->prev;
    gw_list_init(node);
}
#endif
