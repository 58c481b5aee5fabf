//! Groups of code: what a stripped program still reveals.

use std::collections::BTreeMap;

use tare_records::stacks::Frame;
use tare_records::summary::CodeGroup;

use super::fold::Folded;

/// Beginnings of names of kernel functions, without leading underscores. The first group with a match counts.
const KERNEL: [(CodeGroup, &[&str]); 6] = [
    (
        CodeGroup::Copying,
        &[
            "copy_",
            "skb_copy_datagram",
            "simple_copy",
            "rep_movs",
            "memcpy",
            "memmove",
            "copyin",
            "copyout",
            "csum_and_copy",
            "csum_partial_copy",
        ],
    ),
    (
        CodeGroup::Crypto,
        &[
            "aes", "gcm_", "ghash", "chacha", "poly1305", "sha1_", "sha256_", "sha512_", "crypto_",
            "tls_",
        ],
    ),
    (
        CodeGroup::Epoll,
        &[
            "ep_",
            "epoll",
            "do_epoll",
            "x64_sys_epoll",
            "arm64_sys_epoll",
            "eventpoll",
        ],
    ),
    (
        CodeGroup::Scheduling,
        &[
            "schedule",
            "sched_",
            "try_to_wake_up",
            "ttwu",
            "wake_up",
            "pick_next",
            "pick_task",
            "pick_eevdf",
            "dequeue_",
            "enqueue_task",
            "enqueue_entity",
            "update_curr",
            "update_load",
            "finish_task_switch",
            "prepare_task_switch",
            "context_switch",
            "switch_to",
            "switch_mm",
            "select_task_rq",
            "set_next_",
            "put_prev_",
            "futex",
            "do_futex",
            "x64_sys_futex",
            "hrtimer",
            "do_nanosleep",
            "resched",
        ],
    ),
    (
        CodeGroup::Device,
        &[
            "loopback_",
            "veth_",
            "dev_queue_xmit",
            "dev_hard_start_xmit",
            "net_rx_action",
            "process_backlog",
            "netif_",
            "napi_",
            "enqueue_to_backlog",
            "do_softirq",
            "handle_softirqs",
            "validate_xmit",
        ],
    ),
    (
        CodeGroup::Tcp,
        &[
            "tcp_",
            "inet_",
            "inet6_",
            "ip_",
            "ip6_",
            "ipv4_",
            "ipv6_",
            "sock_",
            "sk_",
            "skb_",
            "alloc_skb",
            "kfree_skb",
            "kmalloc_reserve",
            "nf_",
            "release_sock",
            "lock_sock",
            "sys_sendto",
            "sys_recvfrom",
        ],
    ),
];

/// The samples in each group.
pub(super) fn samples(stacks: &Folded) -> BTreeMap<CodeGroup, u64> {
    let mut groups = BTreeMap::new();
    for (stack, samples) in &stacks.stacks {
        let sum: &mut u64 = groups.entry(of(stack)).or_default();
        *sum = sum.saturating_add(*samples);
    }
    groups
}

/// The group of a stack: the module of the function that ran; in the kernel, that of the innermost function
/// that belongs to one.
fn of(stack: &[Frame]) -> CodeGroup {
    let Some(innermost) = stack.last() else {
        return CodeGroup::User("unknown".to_owned());
    };
    if let Some(module) = &innermost.module {
        return CodeGroup::User(module.clone());
    }
    let kernel = stack.iter().rev().take_while(|f| f.module.is_none());
    let mut names = kernel.filter_map(|f| f.function.as_deref());
    names
        .find_map(of_function)
        .unwrap_or(CodeGroup::OtherKernel)
}

fn of_function(name: &str) -> Option<CodeGroup> {
    let name = name.trim_start_matches('_');
    let begins = |(_, beginnings): &&(CodeGroup, &[&str])| {
        beginnings
            .iter()
            .any(|beginning| name.starts_with(beginning))
    };
    KERNEL.iter().find(begins).map(|(group, _)| group.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(names: &[&str]) -> CodeGroup {
        let frame = |name: &&str| Frame {
            function: (!name.is_empty()).then(|| (*name).to_owned()),
            module: None,
        };
        let mut stack = vec![Frame {
            function: None,
            module: Some("envoy".to_owned()),
        }];
        stack.extend(names.iter().map(frame));
        of(&stack)
    }

    #[test]
    fn the_innermost_function_of_a_group_decides() {
        let send = [
            "do_syscall_64",
            "__sys_sendto",
            "tcp_sendmsg",
            "tcp_write_xmit",
        ];
        assert_eq!(kernel(&send), CodeGroup::Tcp);
        let of = |more: &[&str]| kernel(&[&send, more].concat());
        assert_eq!(of(&["kmem_cache_alloc_node"]), CodeGroup::Tcp, "for TCP");
        assert_eq!(
            of(&["_copy_from_iter", "rep_movs_alternative"]),
            CodeGroup::Copying
        );
        assert_eq!(
            of(&["__dev_queue_xmit", "loopback_xmit"]),
            CodeGroup::Device
        );
        assert_eq!(of(&["net_rx_action", "tcp_v4_rcv"]), CodeGroup::Tcp);
        assert_eq!(of(&["ep_poll_callback"]), CodeGroup::Epoll);
        assert_eq!(
            of(&["ep_poll_callback", "try_to_wake_up"]),
            CodeGroup::Scheduling
        );
        assert_eq!(of(&["crypto_aead_encrypt"]), CodeGroup::Crypto);
        assert_eq!(
            kernel(&["asm_exc_page_fault", "do_user_addr_fault"]),
            CodeGroup::OtherKernel
        );
        assert_eq!(kernel(&[""]), CodeGroup::OtherKernel, "without names");
        assert_eq!(kernel(&[]), CodeGroup::User("envoy".to_owned()));
    }
}
